"""What tests run inside user-mode-linux."""
