"""The journal alone: what was acknowledged is read back once, or the start refuses with a sentence."""

import os
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import wait
from pathlib import Path

import pytest

from mnemon.errors import MnemonError
from mnemon.estimator import served
from mnemon.serve import journal as journals
from mnemon.serve import transaction
from mnemon.serve.events import CUT, SAMPLES, Draft, JournalFailed, KeyReused, NoSpace
from mnemon.serve.journal import Journal
from mnemon.serve.unlearned import has_unlearned_samples

# A process that appends for ever and prints each acknowledgement.
APPENDS = """
import sys
from pathlib import Path
from mnemon.serve.events import Draft
from mnemon.serve.journal import Journal
journal = Journal(Path(sys.argv[1]))
n = int(sys.argv[2])
while True:
    futures = [journal.append([Draft("samples", str(n + i).encode() * 50, 2, key=str(n + i).encode())]) for i in range(7)]
    for i, future in enumerate(futures):
        print(n + i, future.result()[0].position, flush=True)
    n += 7
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.sqlite"


def filled(path, n=20):
    journal = Journal(path)
    for i in range(n):
        journal.append([Draft(SAMPLES, bytes([i]) * 3000, 3, key=bytes([i]), digest=b"d")]).result()
    return journal


def test_events_come_back_in_the_order_they_were_acknowledged(path):
    seen = []
    journal = Journal(path, seen.extend, start=100, notes={"size": 32})
    futures = [journal.append([Draft(SAMPLES, b"x%d" % i, i + 1)]) for i in range(50)]
    futures.append(journal.append([Draft(CUT, b""), Draft(SAMPLES, b"last", 4)]))
    wait(futures)
    positions = [future.result()[-1].position for future in futures]
    assert positions == sorted(positions)
    assert positions[-1] == 100 + 50 * 51 // 2 + 4
    journal.close()
    again = Journal(path, start=7, notes={"size": 8})  # counts for a new one alone
    assert list(again.events()) == seen
    assert [event.seq for event in seen] == list(range(1, 53))
    assert (again.position, again.seq, again.notes) == (positions[-1], 52, {"size": 32})
    assert [event.payload for event in again.events(after=51)] == [b"last"]
    again.close()


def test_a_key_or_a_count_is_taken_once_also_after_a_restart(path):
    journal = Journal(path)
    draft = Draft(SAMPLES, b"x", 5, key=b"k", digest=b"one")
    both = [journal.append([draft]), journal.append([draft])]  # one of them may still be in flight
    assert {each.result()[0].position for each in both} == {5}
    source = Draft(SAMPLES, b"y", 1, producer="lines", number=70)
    assert journal.append([source]).result()[0].position == 6
    journal.close()
    journal = Journal(path)
    assert journal.append([draft]).result()[0] == (5, 5, True, True)
    assert journal.append([source]).result()[0] == (6, 1, True, True)
    earlier = journal.append([source._replace(number=69)]).result()[0]
    assert (earlier.repeated, earlier.named) == (True, False)  # the position is not that of these samples
    assert journal.append([source._replace(number=71)]).result()[0] == (7, 1, False, True)
    assert journal.producer("lines") == 71
    assert journal.producer("other") is None
    with pytest.raises(KeyReused):
        journal.append([draft._replace(digest=b"other")]).result()
    assert journal.position == 7
    assert len(list(journal.events())) == 3
    journal.close()


def test_a_request_that_is_refused_leaves_the_others_of_its_transaction(path, monkeypatch):
    journal = Journal(path)
    journal.append([Draft(SAMPLES, b"x", 1, key=b"k", digest=b"one")]).result()
    with journal._db_lock:  # the writer waits: the next three are one transaction
        futures = [
            journal.append([Draft(SAMPLES, b"a", 1)]),
            journal.append([Draft(SAMPLES, b"b", 1), Draft(SAMPLES, b"x", 1, key=b"k", digest=b"two")]),
            journal.append([Draft(SAMPLES, b"c", 1)]),
        ]
    assert futures[0].result()[0].position == 2
    with pytest.raises(KeyReused):
        futures[1].result()
    assert futures[2].result()[0].position == 3
    assert [event.payload for event in journal.events()] == [b"x", b"a", b"c"]
    journal.close()


def test_two_contents_under_one_key_are_refused_also_within_a_request(path):
    journal = Journal(path)
    first, other = (Draft(SAMPLES, content, 1, key=b"k", digest=content) for content in (b"a", b"b"))
    with pytest.raises(KeyReused):
        journal.append([first, other]).result()
    assert journal.position == 0
    assert [ack.repeated for ack in journal.append([first, first]).result()] == [False, True]
    assert journal.position == 1
    journal.close()


def test_what_follows_a_request_that_was_rolled_back_is_refused(path):
    journal = Journal(path)
    rows = [Draft(SAMPLES, b"x", 1, producer="file", number=i, follows=i - 1) for i in range(1, 6)]
    assert journal.append([rows[0]]).result()[0].position == 1
    with pytest.raises(MnemonError, match="did not come"):
        journal.append([rows[2]]).result()
    assert journal.producer("file") == 1
    assert [journal.append([row]).result()[0].position for row in rows[1:]] == [2, 3, 4, 5]
    assert journal.append([rows[2]]).result()[0].repeated
    journal.close()


def test_old_events_go_in_steps_and_keys_stay_within_their_window(path, monkeypatch):
    monkeypatch.setattr(journals, "STEP", 4)
    monkeypatch.setattr(journals, "KEYS", 6)
    journal = filled(path)
    journal.append([Draft(SAMPLES, b"", 1, key=b"for good", lasting=True)]).result()
    journal.prune(18)
    journal.close()  # what was asked for is done first
    journal = Journal(path)
    assert [event.seq for event in journal.events()] == [19, 20, 21]
    assert journal.pruned == 18
    assert (journal.seq, journal.position) == (21, 61)
    assert journal.knows(bytes([19]))
    assert journal.knows(b"for good")
    assert not journal.knows(bytes([0]))
    assert journal.append([Draft(SAMPLES, b"x", 1)]).result()[0].position == 62
    journal.prune(22)
    journal.close()
    journal = Journal(path)
    assert (journal.seq, journal.position) == (23, 62)  # all were deleted, and one event holds the position
    assert journal.append([Draft(SAMPLES, b"x", 1)]).result()[0].position == 63
    assert [event.seq for event in journal.events()] == [23, 24]  # a number is never given twice
    journal.close()


def test_what_is_kept_is_given_back_by_its_name(path):
    journal = Journal(path)
    journal.keep("p-1", b"pixels").result()
    journal.close()
    journal = Journal(path)
    assert journal.kept("p-1") == b"pixels"
    assert journal.kept("p-2") is None
    journal.close()


def test_the_oldest_of_what_is_kept_go_at_once_by_count_and_bytes(path, monkeypatch):
    monkeypatch.setattr(transaction, "KEPT", 3)
    monkeypatch.setattr(transaction, "KEPT_BYTES", 1000)
    journal = Journal(path)
    for i in range(5):
        journal.keep(f"p-{i}", b"x").result()
    assert [journal.kept(f"p-{i}") is not None for i in range(5)] == [False, False, True, True, True]
    journal.close()
    journal = Journal(path)
    journal.keep("large", b"x" * 999).result()
    assert [journal.kept(f"p-{i}") is not None for i in range(5)] == [False, False, False, False, True]
    journal.keep("larger", b"x" * 2000).result()  # the last one stays whatever it takes
    assert journal.kept("large") is None
    assert journal.kept("larger") is not None
    journal.close()


def test_killed_at_any_moment_all_that_was_acknowledged_is_there_once(path):
    acknowledged, n = {}, 0
    for kill in range(4):
        command = [sys.executable, "-c", APPENDS, str(path), str(n)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(20 + 23 * kill):
                number, position = map(int, process.stdout.readline().split())
                acknowledged[number] = position
            process.send_signal(signal.SIGKILL)
            for line in process.stdout.read().splitlines():
                if len(words := line.split()) == 2:
                    acknowledged[int(words[0])] = int(words[1])
        n = max(acknowledged) + 1000
    journal = Journal(path)
    found = {int(event.payload[: len(event.payload) // 50]): event.position for event in journal.events()}
    assert acknowledged.items() <= found.items()
    assert journal.position == 2 * len(found)
    journal.close()


def test_the_log_of_a_journal_that_was_moved_away_is_not_read_into_a_new_one(path, tmp_path):
    crashed = logged(path, tmp_path)
    crashed.unlink()
    with pytest.raises(MnemonError, match="belongs to a journal that is not there"):
        Journal(crashed)
    crashed.with_name("journal.sqlite-wal").unlink()
    journal = Journal(crashed)
    assert list(journal.events()) == []
    journal.close()


@pytest.mark.parametrize(
    "damage", ["truncated", "cut short", "flipped payload", "flipped page", "flipped schema", "not a database", "empty"]
)
def test_a_damaged_file_stops_the_start_with_a_sentence(path, damage):
    filled(path).close()
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        del content[len(content) // 2 :]
    elif damage == "cut short":
        del content[-5000:]
    elif damage == "flipped payload":
        content[content.rindex(bytes([7]) * 100) + 50] ^= 1
    elif damage == "flipped page":
        content[4096 * 6] ^= 0xFF  # what kind of page it is
    elif damage == "flipped schema":
        content[content.index(b"key BLOB NOT NULL") + 14] = 0xD5  # no UTF-8, and SQLite's message quotes it
    elif damage == "not a database":
        content[:16] = b"something else  "
    else:
        content.clear()
    path.write_bytes(content)
    with pytest.raises(MnemonError, match=r"is damaged .* acknowledged would be missing"):
        list(Journal(path).events())


def logged(path, tmp_path):
    """A journal as a crash leaves it: everything since the start in the write-ahead log."""
    journal = filled(path)
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("journal.sqlite", "journal.sqlite-wal"):
        (crashed / name).write_bytes((path.parent / name).read_bytes())
    journal.close()
    return crashed / "journal.sqlite"


def test_a_log_that_a_crash_left_is_read_and_one_broken_in_its_middle_is_refused(path, tmp_path):
    crashed = logged(path, tmp_path)
    log = crashed.with_name("journal.sqlite-wal")
    whole, database = log.read_bytes(), crashed.read_bytes()
    for at in (0, 20, 32 + 16, len(whole) // 3, len(whole) // 2):
        broken = bytearray(whole)
        broken[at] ^= 1
        log.write_bytes(broken)
        crashed.write_bytes(database)
        with pytest.raises(MnemonError, match="broken in the middle"):
            Journal(crashed)
    for torn in (whole, whole + whole[-4000:], whole + b"\0" * 9000):  # a transaction that was being written
        log.write_bytes(torn)
        crashed.write_bytes(database)
        journal = Journal(crashed)
        assert len(list(journal.events())) == 20
        journal.close()


def test_a_full_disk_takes_nothing_back_and_goes_on_when_there_is_space(path):
    journal = filled(path)
    with journal._db_lock:
        pages = journal._db.execute("PRAGMA page_count").fetchone()[0]
        journal._db.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(NoSpace, match="no space left"):
        journal.append([Draft(SAMPLES, b"x" * 100_000, 1, key=b"new")]).result()
    assert not journal.knows(b"new")
    assert journal.append([Draft(SAMPLES, b"small", 1)]).result()[0].position == 61
    with journal._db_lock:
        journal._db.execute("PRAGMA max_page_count = 100000")
    assert journal.append([Draft(SAMPLES, b"x" * 100_000, 1, key=b"new")]).result()[0].position == 62
    journal.close()
    journal = Journal(path)
    assert [event.position for event in journal.events()][-2:] == [61, 62]
    journal.close()


def test_after_any_other_failure_the_journal_takes_nothing_more(path):
    journal = filled(path)
    with journal._db_lock:
        journal._db.execute("PRAGMA query_only = ON")  # as a disk that became read-only
    with pytest.raises(JournalFailed, match="takes no more samples"):
        journal.append([Draft(SAMPLES, b"x", 1)]).result()
    with journal._db_lock:
        journal._db.execute("PRAGMA query_only = OFF")
    with pytest.raises(JournalFailed):
        journal.append([Draft(SAMPLES, b"x", 1)]).result()
    assert journal.failed
    journal.close()
    journal = Journal(path)
    assert journal.position == 60
    journal.close()


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("gone", [Path.unlink, lambda path: path.rename(path.with_name("moved"))])
def test_what_is_sent_after_the_file_was_deleted_or_moved_is_not_acknowledged(path, gone):
    journal = Journal(path)
    journal.append([Draft(SAMPLES, b"x", 1)]).result()
    gone(path)
    for _ in range(2):
        with pytest.raises(JournalFailed, match="moved, replaced or deleted"):
            journal.append([Draft(SAMPLES, b"x", 1)]).result()
    assert journal.position == 1
    journal.close()


def test_nobody_waits_for_a_writer_that_ended(path):
    journal = Journal(path)
    broken = journal.append([Draft(SAMPLES, b"x", "one")])  # nobody foresaw it
    with pytest.raises(JournalFailed, match="takes no more samples"):
        broken.result(10)
    with pytest.raises(JournalFailed):
        journal.append([Draft(SAMPLES, b"x", 1)]).result(10)
    assert journal.failed
    journal.close()


def test_a_folder_that_cannot_be_written_and_a_journal_in_use_are_one_sentence(path, tmp_path):
    with pytest.raises(MnemonError, match="cannot be made"):
        Journal(tmp_path / "nowhere" / "journal.sqlite")
    journal = Journal(path)
    with pytest.raises(MnemonError, match="another process has the journal"):
        Journal(path)
    journal.close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 2")
    db.close()
    with pytest.raises(MnemonError, match="newer mnemon"):
        Journal(path)
    assert oct(os.stat(path).st_mode & 0o777) == "0o600"


def test_loading_a_model_leaves_its_journal_as_it_is(path, tmp_path):
    """Also one whose log is broken in its middle: what lies behind the break can still be brought back."""
    crashed = logged(path, tmp_path)
    log = crashed.with_name("journal.sqlite-wal")
    broken = bytearray(log.read_bytes())
    broken[len(broken) // 2] ^= 1
    log.write_bytes(broken)
    database = crashed.read_bytes()
    with pytest.warns(UserWarning, match="are in its journal and not learned yet"):
        served.warn_of_unlearned(crashed.parent, {})
    assert has_unlearned_samples(crashed.parent)
    assert log.read_bytes() == broken
    assert crashed.read_bytes() == database
    with pytest.raises(MnemonError, match="broken in the middle"):
        Journal(crashed)
