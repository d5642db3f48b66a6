"""The folder that is put first in the module path of scripts that are profiled."""
