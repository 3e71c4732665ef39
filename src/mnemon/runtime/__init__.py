"""What every layer may use: signals and devices."""
