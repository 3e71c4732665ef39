"""Where `mnemon learn` reads samples from: each source counts, and goes on after its own count."""
