"""What every package needs: errors, arguments, rounding towards privacy, a sandbox for private work, parallel work."""
