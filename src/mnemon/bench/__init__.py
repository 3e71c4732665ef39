"""Speed, side by side in one run: the loop one would write by hand, one run of ours, many runs of ours."""
