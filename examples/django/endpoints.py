"""A Django project as it is: its WSGI application, by the name that other servers use, too."""
from capstan import Endpoint

shop = Endpoint(name="django", app="shop.wsgi:application", env={"DJANGO_SECRET_KEY": "change-me"})
