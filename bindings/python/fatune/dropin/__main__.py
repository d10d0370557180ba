"""`export PYTHONPATH=$(python -m fatune.dropin)`"""

import os

print(os.path.dirname(os.path.abspath(__file__)))
