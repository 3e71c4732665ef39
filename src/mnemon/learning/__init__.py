"""The learner and its parts: memory, losses, classifiers, networks, the step, and the methods."""
