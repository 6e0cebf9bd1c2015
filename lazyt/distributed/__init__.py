"""``torch.distributed``: several processes that compute together.

Host memory moves by MPI (``pip install mpi4py mpich``); who starts the processes does not matter:
``python -m lazyt.distributed.run``, ``mpiexec``, ``srun``, or a program itself with ``RANK``,
``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``. A failure on one rank is an error on all.
"""

from __future__ import annotations

from lazyt.compat.absent import AbsentName, reason
from lazyt.distributed.collectives import *  # noqa: F403
from lazyt.distributed.device_mesh import DeviceMesh as DeviceMesh
from lazyt.distributed.device_mesh import init_device_mesh as init_device_mesh
from lazyt.distributed.objects import *  # noqa: F403
from lazyt.distributed.point_to_point import *  # noqa: F403
from lazyt.distributed.process_groups import *  # noqa: F403
from lazyt.distributed.shares import *  # noqa: F403
from lazyt.distributed.stores import *  # noqa: F403
from lazyt.distributed.works import *  # noqa: F403
from lazyt.errors import DistributedError as DistributedError


def is_available() -> bool:
    """True: ``init_process_group`` is there, whether several processes are installed or not."""
    return True


def __getattr__(name: str) -> object:
    raise AbsentName.of(__name__, name, reason("distributed"))
