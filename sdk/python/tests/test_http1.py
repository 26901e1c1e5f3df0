"""HTTP/1.1 as bytes: encoding of requests, validation of responses."""
import unittest

from capstan.exchange import Request
from capstan.http1 import BrokenAnswer, body_bytes, chunk_bytes, is_chunked, read_head, request_bytes


def request(method="GET", url="http://service.test:8080/v2/ep1/health?full=1", headers=None, body=None):
    return Request(method, url, headers or {}, body, timeout=1.0, repeatable=True)


def head(*lines):
    return read_head("\r\n".join(lines + ("", "")).encode("latin-1"))


class Requests(unittest.TestCase):
    def test_a_get_has_no_length_and_anything_else_has_one(self):
        self.assertEqual(request_bytes(request(headers={"accept": "a/b"})), b"GET /v2/ep1/health?full=1 HTTP/1.1\r\nhost: service.test:8080\r\naccept: a/b\r\n\r\n")
        self.assertTrue(request_bytes(request("POST")).endswith(b"\r\ncontent-length: 0\r\n\r\n"))
        self.assertTrue(request_bytes(request("POST", body=b"{}")).endswith(b"\r\ncontent-length: 2\r\n\r\n{}"))

    def test_a_name_and_password_of_the_address_are_not_sent_as_its_host(self):
        self.assertIn(b"\r\nhost: service.test\r\n", request_bytes(request(url="https://user:word@service.test")))

    def test_a_header_holds_no_other(self):
        for value in ("a\r\nb: c", "a\nb: c", "a\rb"):
            with self.assertRaisesRegex(ValueError, "the header accept must not contain a line break"):
                request_bytes(request(headers={"accept": value}))

    def test_where_it_goes(self):
        for url, address, target in (
            ("http://service.test", ("http", "service.test", 80), "/"),
            ("https://service.test/a?b=c", ("https", "service.test", 443), "/a?b=c"),
            ("http://[::1]:8080/a", ("http", "::1", 8080), "/a"),
        ):
            self.assertEqual((request(url=url).address, request(url=url).target), (address, target))


class Answers(unittest.TestCase):
    def test_names_of_headers_are_in_lower_case(self):
        found = head("HTTP/1.1 429 Too Many Requests", "Retry-After:  2 ", "no header")
        self.assertEqual((found.status, found.headers, found.is_interim), (429, {"retry-after": "2"}, False))
        self.assertTrue(head("HTTP/1.1 100 Continue").is_interim)

    def test_whether_the_connection_may_be_used_again(self):
        for version, connection, keeps in (("1.1", "", True), ("1.1", "Close", False), ("1.0", "", False), ("1.0", "Keep-Alive", True)):
            self.assertEqual(head(f"HTTP/{version} 200 OK", "connection: " + connection).keeps, keeps, (version, connection))

    def test_how_long_the_body_is(self):
        sized = head("HTTP/1.1 200 OK", "content-length: 12")
        self.assertEqual((body_bytes(request(), sized), is_chunked(request(), sized)), (12, False))
        self.assertEqual(body_bytes(request("HEAD"), sized), 0)
        self.assertEqual(body_bytes(request(), head("HTTP/1.1 304 Not Modified", "content-length: 12")), 0)
        self.assertIsNone(body_bytes(request(), head("HTTP/1.1 200 OK")))
        chunked = head("HTTP/1.1 200 OK", "transfer-encoding: Chunked")
        self.assertTrue(is_chunked(request(), chunked))
        self.assertFalse(is_chunked(request("HEAD"), chunked))
        self.assertEqual([chunk_bytes(line) for line in (b"1f\r\n", b"A;name=value\r\n", b"0\r\n")], [31, 10, 0])

    def test_what_is_no_answer(self):
        for line in ("SSH-2.0-server", "HTTP/2 200", "HTTP/1.1", "HTTP/1.1 ok", ""):
            with self.assertRaisesRegex(BrokenAnswer, "the response is not HTTP"):
                head(line)
        with self.assertRaisesRegex(BrokenAnswer, "is not a number"):
            body_bytes(request(), head("HTTP/1.1 200 OK", "content-length: -1"))
        with self.assertRaisesRegex(BrokenAnswer, "chunks of the response are invalid"):
            chunk_bytes(b"more\r\n")


if __name__ == "__main__":
    unittest.main()
