"""walagent: agents that live on your PostgreSQL tables and run on what the WAL says.

Rows are committed, the WAL reader sees them, attached agents run step by step, and what they
do is written back once.  `ARCHITECTURE.md` tells the way of the data.
"""

__version__ = "0.1.0"
