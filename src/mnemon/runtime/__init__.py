"""What every layer may use: signals, devices, messages and progress."""
