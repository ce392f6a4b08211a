"""The paper's table and figures, one TOML each: `fedtier reproduce NAME`."""
