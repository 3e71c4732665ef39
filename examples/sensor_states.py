"""Job 3, sensor states: missing values, a sensor that is added later, and drift that the model detects and follows."""

import warnings

import numpy as np

import mnemon

STATES = {"idle": (20.0, 0.2, 1.0), "running": (60.0, 2.0, 4.0), "overload": (85.0, 5.0, 9.0)}  # °C, mm/s, A
ADDED = 1500  # from this reading on there is a third sensor
CHANGE = 3000  # a new motor: running now looks as overload did, and overload as running did


def reading(t, state, rng):
    """Return one reading as a dict: 2 % of the values are missing, the current is measured from ADDED on."""
    like = {"running": "overload", "overload": "running"}.get(state, state) if t >= CHANGE else state
    heat, shake, current = STATES[like] + rng.normal(size=3) * (6.0, 0.6, 1.0)
    values = {"heat": heat, "shake": shake, "line": str(rng.choice(["A", "B"]))}
    if t >= ADDED:
        values["current"] = current
    return {name: None if rng.random() < 0.02 else value for name, value in values.items()}


def stream(start, stop, seed):
    """Return the readings start … stop − 1 and their states."""
    rng = np.random.default_rng(seed)
    states = rng.choice(list(STATES), size=stop - start)
    return [reading(t, state, rng) for t, state in enumerate(states, start)], states


def main():
    models = {
        half_life: mnemon.OnlineClassifier("slda", features="open", half_life=half_life) for half_life in (None, "auto")
    }
    readings, states = stream(0, 5000, seed=0)
    asked, truth = stream(5000, 6000, seed=1)
    for half_life, clf in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the same events are in drift_
            for start in range(0, 5000, 100):
                clf.learn_many(readings[start : start + 100], states[start : start + 100])
        print(f"half_life={half_life!r}: {clf.score(asked, truth):.1%} right after {clf.n_seen_:,} readings")

    clf = models["auto"]
    for event in clf.drift_:
        since = event.when - CHANGE
        print(f"  drift of {', '.join(event.classes)} noticed at reading {event.when:,}, {since} after the change")
    print(f"  features: {', '.join(clf.feature_names_in_)}")
    return clf.score(asked, truth)


if __name__ == "__main__":
    main()
