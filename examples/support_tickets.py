"""Job 2, support tickets: a pretrained text encoder, and a classifier on top that learns new topics as they appear."""

import tempfile
import zlib

import numpy as np

import mnemon

TOPICS = {  # topic: words its tickets use
    "billing": "invoice refund charged amount payment card twice receipt",
    "access": "password login locked reset account code email expired",
    "delivery": "parcel courier address late arrived tracking broken box",
    "outage": "error timeout down slow server unavailable status retry",
}
SMALL_TALK = "hello please can you help me with my the is it since today thanks team regards"


class Encoder:
    """A stand-in for a SentenceTransformer: encode(texts) returns an array [n, d]. It averages fixed random word vectors."""

    def __init__(self):
        self.words = np.random.default_rng(0).normal(size=(5000, 64)).astype(np.float32)

    def encode(self, texts):
        return np.stack(
            [np.mean([self.words[zlib.crc32(word.encode()) % 5000] for word in text.split()], 0) for text in texts]
        )


def tickets(n, rng, topics):
    """Return n texts of ten words, two of them about their topic, and the topics."""
    labels = rng.choice(topics, size=n)
    texts = [
        " ".join(rng.permutation([*rng.choice(TOPICS[topic].split(), 2), *rng.choice(SMALL_TALK.split(), 8)]))
        for topic in labels
    ]
    return texts, labels


def main():
    rng = np.random.default_rng(0)
    encoder = Encoder()  # in real use: SentenceTransformer("all-MiniLM-L6-v2")
    clf = mnemon.OnlineClassifier("slda", backbone=mnemon.Embedding(encoder))

    clf.partial_fit(*tickets(400, rng, ["billing", "access", "delivery"]))
    for text, topic in zip(*tickets(60, rng, ["outage"]), strict=True):  # a new topic, ticket by ticket
        clf.learn_one(text, topic)

    texts, topics = tickets(500, rng, list(TOPICS))
    accuracy = clf.score(texts, topics)
    sure = clf.predict(texts, reject=0.8)  # None: for a person to read
    answered = np.array([label is not None for label in sure])
    right = (sure[answered] == topics[answered]).mean()
    print(
        f"{len(clf.classes_)} topics, {accuracy:.1%} right; reject=0.8 routes {answered.mean():.1%}, {right:.1%} of them right"
    )

    with tempfile.TemporaryDirectory() as folder:
        clf.save(folder)  # the statistics; the encoder is code and must be passed again
        clf = mnemon.OnlineClassifier.load(folder, backbone=mnemon.Embedding(encoder))
    print(f"{texts[0]!r}: {clf.predict(texts[:1])[0]}")
    return accuracy


if __name__ == "__main__":
    main()
