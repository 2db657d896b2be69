"""Parts of papers that no command and no option of the library reaches: studies and tests use them."""
