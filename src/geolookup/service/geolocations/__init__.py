"""Operations 1 to 7 of the interface."""
