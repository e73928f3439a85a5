"""The verification suite: known costs charged to real runs on a real GPU, and what the runs then lose."""
