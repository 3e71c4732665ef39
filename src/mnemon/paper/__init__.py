"""The paper this project reproduces: what it reports, as data, and the hyper-parameters of its cells."""
