"""Plain Python source, which needs no compiler."""
