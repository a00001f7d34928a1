"""Python source that numba compiles."""
