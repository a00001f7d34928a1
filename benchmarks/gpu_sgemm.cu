// C = A * B, SIZE x SIZE floats: the kernel "128x128x8" of gpu.py in CUDA C, for nvcc.
// A block of 16 x 16 threads computes 128 x 128 elements, a thread 8 x 8 of them in four groups.

#define DEPTH 8
#define ROW 132  // floats of a row of the transposed tile of A: a gap of 4 avoids bank conflicts

extern "C" __global__ void __launch_bounds__(256, 2)
sgemm(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C) {
  __shared__ __align__(16) float a_tile[DEPTH * ROW];
  __shared__ __align__(16) float b_tile[DEPTH * 128];
  const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
  const float *a = A + (blockIdx.y * 128 + t / 2) * SIZE + t % 2 * 4;
  const float *b = B + t / 32 * SIZE + blockIdx.x * 128 + t % 32 * 4;
  float sums[8][8] = {};
  for (int k = 0; k < SIZE; k += DEPTH) {
    const float4 x = *(const float4 *)(a + k), y = *(const float4 *)(b + k * SIZE);
    float *column = a_tile + t % 2 * 4 * ROW + t / 2;
    column[0] = x.x, column[ROW] = x.y, column[2 * ROW] = x.z, column[3 * ROW] = x.w;
    *(float4 *)(b_tile + t * 4) = y;
    __syncthreads();
#pragma unroll
    for (int q = 0; q < DEPTH; q++) {
      float left[8], right[8];
      *(float4 *)left = *(float4 *)(a_tile + q * ROW + ty * 4);
      *(float4 *)(left + 4) = *(float4 *)(a_tile + q * ROW + ty * 4 + 64);
      *(float4 *)right = *(float4 *)(b_tile + q * 128 + tx * 4);
      *(float4 *)(right + 4) = *(float4 *)(b_tile + q * 128 + tx * 4 + 64);
#pragma unroll
      for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) sums[i][j] += left[i] * right[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    float *c = C + (blockIdx.y * 128 + i / 4 * 64 + ty * 4 + i % 4) * SIZE + blockIdx.x * 128;
    *(float4 *)(c + tx * 4) = *(float4 *)sums[i];
    *(float4 *)(c + tx * 4 + 64) = *(float4 *)(sums[i] + 4);
  }
}
