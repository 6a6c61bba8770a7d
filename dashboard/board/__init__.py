"""The pages of the boards and of one asset, its history and the command palette."""
