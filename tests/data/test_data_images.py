"""Image folders and miniImageNet, on small generated images."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mnemon import data
from mnemon.data import images
from mnemon.errors import MnemonError
from mnemon.own_data.images import read


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("MNEMON_DATA", str(folder))
    return folder


def draw(path: Path, colour: int, size: tuple[int, int] = (6, 6), mode: str = "L") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, colour).convert(mode).save(path)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two classes of ten images; the grey of an image is 10 * class + its number."""
    folder = tmp_path / "photos"
    for label, name in enumerate(("wren", "robin")):
        for number in range(10):
            draw(folder / name / f"{number}.png", 10 * label + number)
    return folder


# --- own folders


def test_a_folder_becomes_a_dataset(root: Path) -> None:
    (root / "robin" / "notes.txt").write_text("not an image")
    (root / "robin" / ".hidden.png").write_text("not an image either")
    (root / ".git").mkdir()
    path = data.import_("birds", root, quiet=True)
    assert path == data.cache_dir() / "birds" / "birds.safetensors"
    birds = data.load("birds")
    assert birds.classes == ("robin", "wren")  # sorted
    assert (birds.mean, birds.std) == (127.5, 127.5)
    assert birds.x_train.shape == (16, 3, 6, 6)
    assert torch.bincount(birds.y_test).tolist() == [2, 2]
    greys = torch.cat([birds.x_train, birds.x_test])[:, 0, 0, 0]
    labels = torch.cat([birds.y_train, birds.y_test])
    assert sorted(greys.tolist()) == list(range(20))
    assert torch.equal(labels, (greys < 10).long())  # wren, the first ten greys, is label 1


def test_file_names_do_not_matter_to_the_content(root: Path) -> None:
    data.import_("birds", root, quiet=True)
    before = data.check("birds")
    for number in range(10):
        (root / "wren" / f"{number}.png").rename(root / "wren" / f"x{9 - number}.png")
    data.import_("birds", root, quiet=True)
    assert data.check("birds") == before


def test_a_dataset_that_is_replaced_is_said_to_be(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    data.import_("birds", root, quiet=True)
    before = data.check("birds")
    data.import_("birds", root, quiet=True)
    assert not caplog.messages  # the same content
    (root / "wren" / "0.png").unlink()
    data.import_("birds", root, quiet=True)
    (said,) = caplog.messages
    assert f"birds was replaced: its content SHA-256 was {before} (from {root}) and is {data.check('birds')};" in said


def test_a_cut_the_folder_already_has_is_kept(tmp_path: Path) -> None:
    for part, greys in (("train", (1, 2, 3)), ("test", (4,))):
        for name in ("a", "b"):
            for grey in greys:
                draw(tmp_path / "photos" / part / name / f"{grey}.png", grey)
    data.import_("birds", tmp_path / "photos", quiet=True)
    birds = data.load("birds")
    assert sorted(birds.x_train[:, 0, 0, 0].tolist()) == [1, 1, 2, 2, 3, 3]
    assert birds.x_test[:, 0, 0, 0].tolist() == [4, 4]
    assert birds.y_test.tolist() == [0, 1]

    draw(tmp_path / "photos" / "test" / "c" / "1.png", 1)
    with pytest.raises(MnemonError, match=r"class 'c' is in .*test but not in .*train"):
        data.import_("birds", tmp_path / "photos", quiet=True)


def test_mixed_sizes_need_size(root: Path) -> None:
    wide = draw(root / "wren" / "wide.jpg", 77, size=(12, 6), mode="RGB")
    with pytest.raises(MnemonError) as caught:
        data.import_("birds", root, quiet=True)
    said = str(caught.value)
    assert f"{root / 'robin' / '0.png'} has 6x6 pixels and {wide} has 12x6" in said
    assert "--size" in said
    data.import_("birds", root, size=4, quiet=True)
    assert data.load("birds").x_train.shape[1:] == (3, 4, 4)


@pytest.mark.parametrize("name", ["Birds", "1st", "a-b", "../x", "", "a/b"])
def test_a_name_that_cannot_be_is_refused(name: str, root: Path) -> None:
    with pytest.raises(MnemonError, match="cannot name a dataset"):
        data.import_(name, root)


def test_bad_folders_are_named(root: Path, tmp_path: Path, cache: Path) -> None:
    with pytest.raises(MnemonError, match="does not exist"):
        data.import_("birds", tmp_path / "nowhere")
    with pytest.raises(MnemonError, match=r"wren holds 0 class folders"):
        data.import_("birds", root / "wren")
    with pytest.raises(MnemonError, match="digits is built in"):
        data.import_("digits", root)
    with pytest.raises(MnemonError, match="cifar10 has its own image size"):
        data.import_("cifar10", root, size=16)
    for size in (0, -1, 100000):
        with pytest.raises(MnemonError, match="size must be between 1 and 1024"):
            data.import_("birds", root, size=size)
    (root / "owl").mkdir()
    with pytest.raises(MnemonError, match=r"class folder .*owl holds no images"):
        data.import_("birds", root)
    draw(root / "owl" / "1.png", 1)
    with pytest.raises(MnemonError, match=r"class folder .*owl holds 1 image; a class needs 2"):
        data.import_("birds", root)
    assert not cache.exists()


def test_an_unreadable_image_is_named(root: Path) -> None:
    whole = draw(root / "robin" / "big.png", 1, size=(64, 64))
    whole.write_bytes(whole.read_bytes()[:60])
    with pytest.raises(MnemonError, match=r"big.png is not a readable image"):
        data.import_("birds", root, size=6, quiet=True)
    whole.write_text("text")
    with pytest.raises(MnemonError, match=r"big.png is not a readable image"):
        data.import_("birds", root, size=6, quiet=True)
    whole.unlink()
    whole.symlink_to(root / "gone.png")
    with pytest.raises(MnemonError, match=r"big.png is not a readable image"):
        data.import_("birds", root, size=6, quiet=True)


def test_a_link_to_an_image_is_an_image(root: Path) -> None:
    other = draw(root.parent / "elsewhere.png", 99)
    (root / "wren" / "link.png").symlink_to(other)
    assert 99 in data.folder(root, size=6).x


def bomb(path: Path, side: int) -> Path:
    """A PNG of a few bytes that claims side x side pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
    return path


@pytest.mark.parametrize("side", [10000, 60000])  # Pillow warns of the first and refuses the second
def test_a_decompression_bomb_is_refused(side: int, root: Path) -> None:
    bomb(root / "wren" / "bomb.png", side)
    with pytest.raises(MnemonError, match=r"bomb.png has more pixels than is safe"):
        data.import_("birds", root, size=6, quiet=True)


def test_images_that_do_not_fit_in_memory_are_refused_before_the_work(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "MAX_BYTES", 20 * 3 * 36 - 1)
    with pytest.raises(MnemonError, match=r"20 images of 6x6 pixels do not fit in memory; give a smaller --size"):
        data.import_("birds", root, quiet=True)


def test_a_class_is_read_with_its_sub_folders(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    draw(root / "wren" / "2021" / "spring" / "0.png", 70)
    draw(root / "wren" / "2021" / "0.jfif", 71).rename(root / "wren" / "2021" / "1.JPE")
    draw(root / "wren" / ".thumbnails" / "0.png", 90)
    draw(root / "stray.png", 91)
    (root / "wren" / "2021" / "a.avif").write_bytes(b"x")
    for name in ("Thumbs.db", "desktop.ini", ".DS_Store"):
        (root / name).touch()
        (root / "wren" / name).touch()
    (root / "wren" / "2021" / "again").symlink_to(root / "wren")  # a loop, and a way up to the other class
    (root / "wren" / "up").symlink_to(root)
    elsewhere = draw(root.parent / "elsewhere" / "5.png", 72).parent
    (root / "wren" / "linked").symlink_to(elsewhere)
    birds = data.folder(root, size=6)
    assert [str(file.relative_to(root)) for file in birds.files[10:]] == [
        *(f"wren/{n}.png" for n in range(2)),
        "wren/2.png",
        "wren/2021/1.JPE",
        "wren/2021/spring/0.png",
        *(f"wren/{n}.png" for n in range(3, 10)),
        "wren/linked/5.png",
    ]
    caplog.clear()
    data.import_("birds", root)
    assert caplog.messages[0] == (
        f"left out of {root}: 1 file outside any class folder (as {root / 'stray.png'}), "
        f"1 file not png, jpg, bmp, webp, gif, ppm or tiff (as {root / 'wren' / '2021' / 'a.avif'})."
    )
    stored = data.load("birds")
    assert len(stored.x_train) + len(stored.x_test) == 23


@pytest.mark.parametrize("test", ["test/a/1.png", "test/1.png", "valid/b/1.png", ""])
def test_the_parts_of_a_cut_are_not_taken_for_classes(test: str, tmp_path: Path) -> None:
    draw(tmp_path / "photos" / "train" / "a" / "1.png", 1)
    if test:
        draw(tmp_path / "photos" / test, 1)
    with pytest.raises(MnemonError, match=r"photos is cut into parts \(.*train.*\), not classes; give .*train"):
        data.folder(tmp_path / "photos", size=6)


# --- single images


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "1", "CMYK", "LA"])
def test_every_8_bit_mode_becomes_rgb(mode: str, tmp_path: Path) -> None:
    path = draw(tmp_path / ("a.tiff" if mode == "CMYK" else "a.png"), 255, mode=mode)
    assert data.image(path, size=None).tolist() == [[[255] * 6] * 6] * 3


@pytest.mark.parametrize("mode", ["RGBA", "LA", "La", "RGBa"])
def test_what_is_transparent_is_white_and_not_the_black_below_it(mode: str, tmp_path: Path) -> None:
    """A black square on a transparent ground, which is stored as black too."""
    image = Image.new("LA", (4, 4), (0, 0))
    image.paste((0, 255), (0, 0, 2, 4))
    made = image.convert("RGBA").convert("RGBa") if mode == "RGBa" else image.convert(mode)
    assert images._rgb(made).getpixel((3, 3)) == (255, 255, 255)
    assert images._rgb(made).getpixel((0, 0)) == (0, 0, 0)
    image.convert("RGBA" if mode.startswith("RGB") else "LA").save(tmp_path / "a.png")
    assert data.image(tmp_path / "a.png", size=None)[:, 0].tolist() == [[0, 0, 255, 255]] * 3
    assert read(tmp_path / "a.png", 4, channels=1)[0, :, 0].tolist() == [0, 0, 255, 255]  # as a grey model takes it


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "P"])
def test_a_colour_that_stands_for_nothing_is_white(mode: str, tmp_path: Path) -> None:
    image = Image.new(mode, (2, 2))
    image.save(tmp_path / "a.png", transparency=(0, 0, 0) if mode == "RGB" else 0)
    assert data.image(tmp_path / "a.png", size=None).tolist() == [[[255] * 2] * 2] * 3


def test_a_palette_with_an_alpha_channel_is_seen_on_white() -> None:
    image = Image.new("PA", (1, 1), (0, 0))
    image.putpalette([0, 0, 0])
    assert images._rgb(image).getpixel((0, 0)) == (255, 255, 255)


def test_half_transparent_is_half_white(tmp_path: Path) -> None:
    image = Image.new("P", (2, 2), 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    image.save(tmp_path / "a.png", transparency=b"\0\x80")
    assert data.image(tmp_path / "a.png", size=None)[:, 0, 0].tolist() == [132, 137, 142]


def test_16_bit_images_are_refused_rather_than_clipped(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 40000, dtype=np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(MnemonError, match=r"deep.png has pixels of more than 8 bits"):
        data.image(tmp_path / "deep.png", size=None)


def test_a_photograph_is_turned_the_way_its_camera_was_held(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6  # shown after a quarter turn clockwise
    Image.new("L", (8, 4)).save(tmp_path / "a.jpg", exif=turned)
    assert data.image(tmp_path / "a.jpg", size=None).shape == (3, 8, 4)


@pytest.mark.parametrize("extent", [(30, 10), (10, 30), (31, 10), (200, 7)])
def test_the_short_side_is_resized_and_the_centre_kept(extent: tuple[int, int], tmp_path: Path) -> None:
    """A white square in the middle of a long black image is all that is left."""
    width, height = extent
    short = min(extent)
    image = Image.new("L", extent, 0)
    image.paste(255, ((width - short) // 2, (height - short) // 2, (width + short) // 2, (height + short) // 2))
    image.save(tmp_path / "a.png")
    cut = data.image(tmp_path / "a.png", size=5)
    assert cut.shape == (3, 5, 5)
    assert int(cut[:, 1:-1, 1:-1].min()) == 255
    assert float(cut.float().mean()) > 200


def test_an_image_of_the_right_size_is_not_touched(tmp_path: Path) -> None:
    pixels = np.random.Generator(np.random.Philox(5)).integers(0, 256, (9, 9, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(data.image(tmp_path / "a.png", size=9).numpy(), pixels.transpose(2, 0, 1))


# --- a folder for a classifier of one's own


def test_a_folder_is_read_in_order_of_class_and_file(root: Path) -> None:
    birds = data.folder(root, size=6)
    assert birds.classes == ("robin", "wren")
    assert birds.x.dtype == torch.uint8
    assert birds.x[:, 0, 0, 0].tolist() == [*range(10, 20), *range(10)]
    assert birds.y.tolist() == [0] * 10 + [1] * 10
    assert birds.files[0] == root / "robin" / "0.png"
    with pytest.raises(MnemonError, match="is not a folder"):
        data.folder(root / "nowhere", size=6)


# --- miniImageNet


def mini(root: Path, counts: dict[str, dict[str, int]]) -> None:
    """Lists and images; an image's grey is its place in its class. File names run against the lists' order."""
    for split, classes in counts.items():
        lines = ["filename,label"]
        for label, count in classes.items():
            for place in range(count):
                name = f"{label}-{99 - place}.png"
                draw(root / "images" / name, place, size=(84, 84))
                lines.append(f"{name},{label}")
        (root / f"{split}.csv").write_text("\n".join(lines) + "\n")


def test_mini_imagenet_is_cut_in_file_order_and_its_classes_are_merged(tmp_path: Path) -> None:
    mini(tmp_path, {"train": {"n09": 10, "n01": 10}, "val": {"n05": 5}, "test": {"n02": 6}})
    data.import_("mini_imagenet", tmp_path, quiet=True)
    real = data.load("mini_imagenet")
    assert real.classes == ("n09", "n01", "n05", "n02")  # train, val, test; first appearance
    assert real.x_train.shape[1:] == (3, 84, 84)
    for label, (train, count) in enumerate([(8, 10), (8, 10), (4, 5), (4, 6)]):
        assert sorted(real.x_train[real.y_train == label, 0, 0, 0].tolist()) == list(range(train))
        assert sorted(real.x_test[real.y_test == label, 0, 0, 0].tolist()) == list(range(train, count))
    assert real.checksum == data.check("mini_imagenet")


def test_of_600_images_480_are_train() -> None:
    from mnemon.data.canonical import place_in_class

    y = np.repeat([0, 1], 600)
    assert (place_in_class(y) < 600 * 4 // 5).sum() == 960


def test_mini_imagenet_from_class_folders_of_photographs(tmp_path: Path) -> None:
    for label in ("n01", "n02"):
        for place in range(5):
            draw(tmp_path / label / f"{place}.jpg", 50 * place, size=(100, 90), mode="RGB")
    data.import_("mini_imagenet", tmp_path, quiet=True)
    real = data.load("mini_imagenet")
    assert real.x_train.shape == (8, 3, 84, 84)
    assert real.x_test[:, 0, 0, 0].tolist() == [200, 200]  # the last file of each class


def test_bad_lists_are_named(tmp_path: Path) -> None:
    counts = {"train": {"a": 2}, "val": {"b": 2}, "test": {"c": 2}}
    mini(tmp_path, counts)
    (tmp_path / "val.csv").write_text("name,class\nx.png,b\n")
    with pytest.raises(MnemonError, match=r"val.csv is not a csv file with the columns filename and label"):
        data.import_("mini_imagenet", tmp_path)
    (tmp_path / "val.csv").write_text("filename,label\n../../secret.png,b\n")
    with pytest.raises(MnemonError, match=r"names '../../secret.png', which is outside its images folder"):
        data.import_("mini_imagenet", tmp_path)
    (tmp_path / "val.csv").write_text("filename,label\nx.png,b\n")
    with pytest.raises(MnemonError, match=r"class 'b' has 1 image"):
        data.import_("mini_imagenet", tmp_path)
    (tmp_path / "val.csv").write_text("filename,label\nx.png,b\ny.png,b\n")
    with pytest.raises(MnemonError, match=r"x.png is not a readable image"):
        data.import_("mini_imagenet", tmp_path, quiet=True)
    (tmp_path / "val.csv").write_text("filename,label\nx.png\n")
    with pytest.raises(MnemonError, match=r"val.csv is not a csv file with the columns filename and label"):
        data.import_("mini_imagenet", tmp_path)
    (tmp_path / "val.csv").unlink()
    with pytest.raises(MnemonError, match=r"val.csv cannot be read"):
        data.import_("mini_imagenet", tmp_path)
