from django.http import HttpRequest, JsonResponse
from django.urls import path


def home(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"framework": "Django"})


def item(request: HttpRequest, number: int) -> JsonResponse:
    return JsonResponse({"item": number, "method": request.method})


urlpatterns = [path("", home), path("items/<int:number>/", item)]
