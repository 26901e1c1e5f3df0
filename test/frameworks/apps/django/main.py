from capstan import Endpoint

api = Endpoint(name="api", app="shop.asgi:application")
classic = Endpoint(name="classic", app="shop.wsgi:application")
