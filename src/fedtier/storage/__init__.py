"""What is kept on a disk or sent over a wire: whole files (`files`), named arrays (`named_arrays`). None of it is ever run."""
