from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.views.static import serve


def home(request):
    return JsonResponse({"home": True})


def item(request, number):
    link = request.build_absolute_uri(reverse("static", args=["a.txt"]))
    return JsonResponse({"number": number, "q": request.GET.get("q", ""), "url": request.build_absolute_uri(), "link": link})


def go(request):
    return redirect("/items/1")


def cookie(request):
    response = HttpResponse()
    response.set_cookie("seen", "yes")
    return response


def cookies(request):
    return JsonResponse(request.COOKIES)


def upload(request):
    file = request.FILES["file"]
    return JsonResponse({"name": file.name, "size": len(file.read())})


def stream(request):
    return StreamingHttpResponse((f"{number}\n" for number in range(3)), content_type="text/plain")


urlpatterns = [
    path("", home),
    path("items/<int:number>", item),
    path("go", go),
    path("cookie", cookie),
    path("cookies", cookies),
    path("upload", upload),
    path("stream", stream),
    path("static/<path:path>", serve, {"document_root": "static"}, name="static"),
]
