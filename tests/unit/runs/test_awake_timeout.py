"""Time-outs that leave out the time in which the process was suspended."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from walagent.runs.awake_timeout import awake_for

# Says when it begins, and how long it was let to wait; what it waits for never comes.
WAITING = """
import asyncio, time
from walagent.runs.awake_timeout import awake_for

async def main():
    async with awake_for(60) as whole:
        print("begun", flush=True)
        try:
            async with awake_for(1.5):
                await asyncio.Event().wait()
        except TimeoutError:
            print(whole.stood_still, flush=True)

began = time.monotonic()
asyncio.run(main())
print(time.monotonic() - began, flush=True)
"""


async def test_a_block_that_takes_too_long_is_ended() -> None:
    """In time, also where that is less than a look or no multiple of it."""
    for seconds in (0.05, 1.1):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with awake_for(seconds):
                await asyncio.Event().wait()
        assert seconds <= time.monotonic() - began < seconds + 1


async def test_a_block_that_ends_in_time_is_left_alone() -> None:
    """Nor does it seem to have stood still."""
    async with awake_for(60) as wake:
        await asyncio.sleep(0)
    assert not wake.stood_still


async def test_a_cancelled_block_is_cancelled() -> None:
    """Its end is not mistaken for that of its time."""

    async def block() -> None:
        async with awake_for(60):
            await asyncio.Event().wait()

    task = asyncio.create_task(block())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_time_of_a_suspended_process_does_not_count() -> None:
    """It has as long as before when it wakes, and knows that it was away."""
    with subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2.5)
        process.send_signal(signal.SIGCONT)
        out = process.stdout.read().split()
    assert out[0] == b"True"
    assert float(out[1]) > 2.9  # 2.5 stood still, and what a look of a second leaves of 1.5
