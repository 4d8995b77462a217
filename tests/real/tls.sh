# tls.sh: a TLS server and client in Python with a certificate made on the spot.
# needs: python3 openssl
set -eu
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 \
    -subj /CN=localhost -addext 'subjectAltName=DNS:localhost' 2> /dev/null
cat > tls.py <<'END'
import socket, ssl, threading
server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server_side.load_cert_chain("cert.pem", "key.pem")
listener = socket.create_server(("127.0.0.1", 0))
def serve():
    for _ in range(5):
        raw, _ = listener.accept()
        with server_side.wrap_socket(raw, server_side=True) as stream:
            stream.sendall(stream.recv(100).upper() * 1000)
thread = threading.Thread(target=serve)
thread.start()
client_side = ssl.create_default_context(cafile="cert.pem")
for i in range(5):
    with socket.create_connection(listener.getsockname()) as raw:
        with client_side.wrap_socket(raw, server_hostname="localhost") as stream:
            stream.sendall(b"hello %d" % i)
            data = b""
            while chunk := stream.recv(4096):
                data += chunk
            print(len(data), data[:7], stream.version())
thread.join()
END
python3 tls.py
rm key.pem cert.pem
