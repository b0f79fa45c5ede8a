"""What a worker computes: the labs' science. No Django and no Celery in here."""
