#define _GNU_SOURCE
#include "ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 16, PENDING = 1 << 20, INPUT = 4096, FDS = 2 + CLIENTS, PORTS_MOST = 256 };

/* Somebody at the other end: a TCP client or the pty. */
typedef struct {
    int fd;           /* -1: none */
    uint8_t *pending; /* bytes not yet taken by it */
    int count;
} peer_t;

struct port {
    int listener, tcp;
    peer_t pty;
    char *link;
    int pty_other_end; /* held open, or the pty hangs up whenever its user closes it */
    peer_t clients[CLIENTS];
    bool had_client;
    uint8_t input[INPUT];
    int input_count;
};

static void peer_open(peer_t *peer, int fd)
{
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    *peer = (peer_t){fd, malloc(PENDING), 0};
}

static void peer_close(peer_t *peer)
{
    if (peer->fd >= 0) {
        close(peer->fd);
        free(peer->pending);
    }
    *peer = (peer_t){-1, NULL, 0};
}

/* ---- Opening ---- */

static int listen_on(int tcp)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)tcp), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, CLIENTS) != 0) {
        fprintf(stderr, "TCP port %d of 127.0.0.1 cannot be opened: %s\n", tcp, strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

static int number_of(int fd)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    getsockname(fd, (struct sockaddr *)&address, &size);
    return ntohs(address.sin_port);
}

/* A link from an earlier run may be in the way; anything else is not ours to remove. */
static bool link_to(const char *pty, const char *link)
{
    char before[16];
    if (readlink(link, before, sizeof before) > 0 && strncmp(before, "/dev/pts/", 9) == 0)
        unlink(link);
    if (symlink(pty, link) != 0) {
        fprintf(stderr, "%s cannot be made a link to a pty: %s\n", link, strerror(errno));
        return false;
    }
    return true;
}

static bool open_pty(port_t *port, const char *link)
{
    struct termios raw;
    memset(&raw, 0, sizeof raw);
    cfmakeraw(&raw);
    char name[64];
    int fd, other;
    if (openpty(&fd, &other, name, &raw, NULL) != 0) {
        fprintf(stderr, "no pty can be had: %s\n", strerror(errno));
        return false;
    }
    peer_open(&port->pty, fd);
    port->pty_other_end = other;
    if (!link_to(name, link))
        return false;
    port->link = strdup(link);
    return true;
}

port_t *port_open(int tcp, const char *link)
{
    port_t *port = calloc(1, sizeof *port);
    port->listener = port->tcp = port->pty.fd = port->pty_other_end = -1;
    for (int i = 0; i < CLIENTS; i++)
        port->clients[i].fd = -1;
    bool good = true;
    if (tcp >= 0) {
        port->listener = listen_on(tcp);
        good = port->listener >= 0;
        port->tcp = good ? number_of(port->listener) : -1;
    }
    if (good && link != NULL)
        good = open_pty(port, link);
    if (!good) {
        port_close(port);
        return NULL;
    }
    return port;
}

void port_close(port_t *port)
{
    for (int i = 0; i < CLIENTS; i++)
        peer_close(&port->clients[i]);
    peer_close(&port->pty);
    if (port->pty_other_end >= 0)
        close(port->pty_other_end);
    if (port->listener >= 0)
        close(port->listener);
    if (port->link != NULL)
        unlink(port->link);
    free(port->link);
    free(port);
}

int port_tcp(const port_t *port)
{
    return port->tcp;
}

const char *port_pty(const port_t *port)
{
    return port->link;
}

bool port_had_client(const port_t *port)
{
    return port->had_client;
}

/* ---- Bytes ---- */

static bool peer_put(peer_t *peer, uint8_t byte)
{
    if (peer->fd < 0)
        return true;
    if (peer->count == PENDING)
        return false;
    peer->pending[peer->count++] = byte;
    return true;
}

void port_put(port_t *port, uint8_t byte)
{
    for (int i = 0; i < CLIENTS; i++)
        if (!peer_put(&port->clients[i], byte))
            peer_close(&port->clients[i]);
    peer_put(&port->pty, byte);
}

int port_take(port_t *port, uint8_t *bytes, int most)
{
    int count = port->input_count < most ? port->input_count : most;
    memcpy(bytes, port->input, (size_t)count);
    port->input_count -= count;
    memmove(port->input, port->input + count, (size_t)port->input_count);
    return count;
}

/* False when the peer has gone. */
static bool peer_send(peer_t *peer)
{
    ssize_t sent = write(peer->fd, peer->pending, (size_t)peer->count);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    peer->count -= (int)sent;
    memmove(peer->pending, peer->pending + sent, (size_t)peer->count);
    return true;
}

static bool peer_receive(port_t *port, const peer_t *peer)
{
    int room = INPUT - port->input_count;
    if (room == 0)
        return true;
    ssize_t got = read(peer->fd, port->input + port->input_count, (size_t)room);
    if (got > 0)
        port->input_count += (int)got;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

static void let_in(port_t *port)
{
    int fd = accept(port->listener, NULL, NULL);
    if (fd < 0)
        return;
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    for (int i = 0; i < CLIENTS; i++) {
        if (port->clients[i].fd < 0) {
            peer_open(&port->clients[i], fd);
            port->had_client = true;
            return;
        }
    }
    close(fd);
}

static bool peer_serve(port_t *port, peer_t *peer, short events)
{
    if ((events & (POLLIN | POLLHUP | POLLERR)) && !peer_receive(port, peer))
        return false;
    return peer->count == 0 || peer_send(peer);
}

static short peer_wants(const port_t *port, const peer_t *peer)
{
    return (short)((port->input_count < INPUT ? POLLIN : 0) | (peer->count > 0 ? POLLOUT : 0));
}

static void ask(const port_t *port, struct pollfd *fds)
{
    fds[0] = (struct pollfd){port->listener, POLLIN, 0};
    fds[1] = (struct pollfd){port->pty.fd, peer_wants(port, &port->pty), 0};
    for (int i = 0; i < CLIENTS; i++)
        fds[2 + i] = (struct pollfd){port->clients[i].fd, peer_wants(port, &port->clients[i]), 0};
}

static void answer(port_t *port, const struct pollfd *fds)
{
    if (fds[1].revents != 0)
        peer_serve(port, &port->pty, fds[1].revents);
    for (int i = 0; i < CLIENTS; i++)
        if (fds[2 + i].revents != 0 && !peer_serve(port, &port->clients[i], fds[2 + i].revents))
            peer_close(&port->clients[i]);
    if (fds[0].revents != 0)
        let_in(port);
}

void ports_poll(port_t *const *ports, int count, int ms)
{
    static struct pollfd fds[PORTS_MOST * FDS];
    for (int i = 0; i < count; i++)
        ask(ports[i], fds + i * FDS);
    if (poll(fds, (nfds_t)(count * FDS), ms) <= 0)
        return;
    for (int i = 0; i < count; i++)
        answer(ports[i], fds + i * FDS);
}
