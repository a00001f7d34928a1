"""LLVM IR from loops, and machine code from LLVM IR."""
