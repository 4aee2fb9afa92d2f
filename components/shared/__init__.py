"""What more than one step needs, each thing once. Never imports a step."""
