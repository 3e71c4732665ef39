"""Many runs of one network at once: every layer is one kernel over all of them. Needs Triton, hence imported on demand."""
