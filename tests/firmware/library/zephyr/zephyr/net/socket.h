#include <stddef.h>
#include <stdint.h>

#define AF_INET6 2
#define SOCK_DGRAM 2
#define IPPROTO_UDP 17
#define htons(x) ((uint16_t)(((x) >> 8) | (((x) << 8) & 0xFF00)))

typedef ptrdiff_t ssize_t;
typedef size_t socklen_t;

struct sockaddr {
    uint16_t sa_family;
    char data[24];
};

struct in6_addr {
    uint8_t s6_addr[16];
};

struct sockaddr_in6 {
    uint16_t sin6_family;
    uint16_t sin6_port;
    struct in6_addr sin6_addr;
    uint8_t sin6_scope_id;
};

int zsock_socket(int family, int type, int protocol);
int zsock_bind(int sock, const struct sockaddr *addr, socklen_t addrlen);
int zsock_inet_pton(int family, const char *text, void *address);
ssize_t zsock_recv(int sock, void *buffer, size_t most, int flags);
ssize_t zsock_sendto(int sock, const void *buffer, size_t length, int flags, const struct sockaddr *to,
                     socklen_t addrlen);
