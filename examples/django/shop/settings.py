import os

SECRET_KEY = os.environ["DJANGO_SECRET_KEY"]
DEBUG = False
# The gateway passes the name by which the caller reached it.
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]
INSTALLED_APPS = []
USE_TZ = True
