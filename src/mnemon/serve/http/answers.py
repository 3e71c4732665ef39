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
    samples: int = Field(description="how many these were")
    repeated: bool = Field(description="they had been acknowledged before, and count once")


class Guess(BaseModel):
    label: LabelValue
    confidence: float


class Prediction(BaseModel):
    label: LabelValue
    confidence: float = Field(description="the probability of the label, 0 to 1")
    top: list[Guess] = Field(description="the likeliest labels, the best first")


class Predictions(BaseModel):
    predictions: list[Prediction]
    learned: int = Field(description="samples that what predicted had learned")
    id: str | None = Field(default=None, description="by which `label` tells the label later, with keep=true")


class Retracted(BaseModel):
    position: int


class Saved(BaseModel):
    learned: int = Field(description="samples that the newest snapshot has learned")


class ModelNames(BaseModel):
    models: list[str]


class Rates(BaseModel):
    learned_per_second: float
    waiting: int = Field(description="samples that are acknowledged and not learned")
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
    learned: int = Field(description="samples tried, in the order of positions")
    published: int = Field(description="samples that predictions know of")
    refused: int = Field(description="requests whose loss was not finite")
    classes: list[ClassCount]
    shape: list[int] | None = Field(description="of a sample: [features] or [channels, height, width]")
    dtype: str | None
    features: list[str] | None = Field(description="their names, where they have some")
    image_size: int = Field(description="pixels a side to which images are brought")
    method: str
    drifts: list[Drift] = Field(description="classes whose samples changed, the last 100 times")
    rates: Rates
    failed: str | None = Field(description="why no more samples are taken")


class MemoryRow(BaseModel):
    row: int
    label: LabelValue
    x: list[object] = Field(description="numbers, or an image [height][width][channels]")


class Memory(BaseModel):
    source: Literal["memory", "exam"] = Field(
        description="what is replayed; of a learner that replays nothing, what is held out of learning"
    )
    kept: int = Field(description="how many samples these are")
    classes: list[ClassCount]
    rows: list[MemoryRow]


class Point(BaseModel):
    learned: int
    predicted: int
    right: int


class ExamClass(BaseModel):
    label: LabelValue
    samples: int = Field(description="held out of learning")
    accuracy: float = Field(description="the share of them that is predicted right now")
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
