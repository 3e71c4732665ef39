"""What the server answers, as OpenAPI describes it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

LabelValue = str | int | bool


class ProblemDetails(BaseModel):
    """RFC 9457: what went wrong, in one sentence."""

    type: str
    title: str
    status: int
    detail: str


class Acknowledged(BaseModel):
    """The samples are on the disk and will be learned, whatever happens."""

    position: int | None = Field(
        description="samples acknowledged so far, with these; names the request in retract. null: a producer repeats a request "
        "before its last one, of which no position is kept"
    )
    samples: int = Field(description="the number of samples in this request")
    repeated: bool = Field(description="true: this request had been acknowledged before; it counts once")


class Guess(BaseModel):
    label: LabelValue
    confidence: float


class Prediction(BaseModel):
    label: LabelValue
    confidence: float = Field(description="the probability of the label, 0 to 1")
    top: list[Guess] = Field(description="the likeliest labels, the best first")


class Predictions(BaseModel):
    predictions: list[Prediction]
    learned: int = Field(description="samples that the predicting state had learned")
    id: str | None = Field(default=None, description="with keep=true: names these samples in `label`")


class Retracted(BaseModel):
    position: int


class Saved(BaseModel):
    learned: int = Field(description="samples that the newest snapshot has learned")


class ModelNames(BaseModel):
    models: list[str]


class Rates(BaseModel):
    learned_per_second: float
    waiting: int = Field(description="samples that are acknowledged and not learned yet")
    seconds_to_catch_up: float


class ClassCount(BaseModel):
    label: LabelValue
    samples: int


class Drift(BaseModel):
    label: LabelValue
    when: int = Field(description="samples learned before it was noticed")
    samples: int = Field(description="samples of the class by then")


class ModelStatus(BaseModel):
    name: str
    acknowledged: int = Field(description="samples on the disk")
    learned: int = Field(description="samples learned or refused, in the order of positions")
    published: int = Field(description="samples that predictions use")
    refused: int = Field(description="requests that could not be learned")
    classes: list[ClassCount]
    shape: list[int] | None = Field(description="the shape of a sample: [features] or [channels, height, width]")
    dtype: str | None
    features: list[str] | None = Field(description="the names of the features, if they have names")
    image_size: int = Field(description="images are scaled to this number of pixels per side")
    method: str
    drifts: list[Drift] = Field(description="classes whose samples changed, the last 100 times")
    rates: Rates
    failed: str | None = Field(description="why the model accepts no more samples")


class MemoryRow(BaseModel):
    row: int
    label: LabelValue
    x: list[object] = Field(description="numbers, or an image [height][width][channels]")


class Memory(BaseModel):
    source: Literal["memory", "exam"] = Field(
        description="what is replayed; of a learner that replays nothing, what is held out of learning"
    )
    kept: int = Field(description="the number of these samples")
    classes: list[ClassCount]
    rows: list[MemoryRow]


class Point(BaseModel):
    learned: int
    predicted: int
    right: int


class ExamClass(BaseModel):
    label: LabelValue
    samples: int = Field(description="samples of this class that are held out of learning")
    accuracy: float = Field(description="the share of them that the published state predicts correctly")
    best: float = Field(description="the highest share so far; best − accuracy is what was forgotten")


class Exam(BaseModel):
    """Samples of each class that were never learned, asked of what is published."""

    samples: int
    accuracy: float = Field(description="the mean over classes")
    classes: list[ExamClass]


class Curves(BaseModel):
    """Test, then train: samples are predicted, with what is published, before they are learned."""

    points: list[Point]
    accuracy: float | None
    accuracy_of_last_1000: float | None
    exam: Exam | None = Field(description="null before ten samples of a class came, and for a model without an exam")


class Health(BaseModel):
    status: str
