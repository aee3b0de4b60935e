#include "comm/liveness.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock_time.h"
#include "base/error.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBeat = std::chrono::milliseconds(200);
/// So long may the ranks take to notice that the run stops.
constexpr auto kPatienceAfterALoss = std::chrono::seconds(5);

/// What goes over a connection: signs of life, the good-bye of a member that leaves, the news of
/// one that is lost.
enum class Sign : uint8_t { kAlive, kLeaves, kLost };
struct SignMessage {
  Sign sign = Sign::kAlive;
  uint8_t is_gone = 0;
  int32_t member = 0;
};

/// What each member tells at the meeting.
struct Introduction {
  std::array<char, 256> host{};
  int64_t process = 0;
  uint64_t secret = 0;  // of member 0: who connects says it
  uint16_t port = 0;    // of member 0
};
struct Hello {
  uint64_t secret = 0;
  int32_t member = 0;
};

class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

[[noreturn]] void cannot_connect(const std::string& what) {
  throw UserError(
      "the processes of this run cannot watch over each other: " + what, std::strerror(errno),
      "check that the machines reach each other over TCP, by the names that hostname prints");
}

std::string this_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

uint64_t drawn_secret() {
  uint64_t secret = 0;
  if (getentropy(&secret, sizeof secret) != 0) cannot_connect("there is no secret");
  return secret;
}

Socket listen_anywhere(uint16_t& port) {
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = INADDR_ANY;
  socklen_t size = sizeof address;
  if (!listener.is_open() ||
      bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener.get(), 1024) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    cannot_connect("member 0 cannot listen");
  port = ntohs(address.sin_port);
  return listener;
}

Socket connect_to(const Introduction& first) {
  const std::string host = first.host.data();
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  const std::string where = host == this_host() ? "127.0.0.1" : host;
  if (getaddrinfo(where.c_str(), std::to_string(first.port).c_str(), &hints, &found) != 0)
    cannot_connect("no address of '" + host + "'");
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  for (const addrinfo* address = found; address; address = address->ai_next) {
    Socket connection(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connection.is_open() &&
        connect(connection.get(), address->ai_addr, address->ai_addrlen) == 0)
      return connection;
  }
  cannot_connect("no connection to '" + host + "'");
}

template <typename Plain>
bool send_plain(const Socket& to, const Plain& plain) {
  return ::send(to.get(), &plain, sizeof plain, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof plain);
}

}  // namespace

struct Liveness::State {
  /// One end of a connection.
  struct Peer {
    int member = 0;
    Socket socket;
    Clock::time_point heard = Clock::now();
    bool has_left = false;
    std::array<std::byte, sizeof(SignMessage)> partial{};
    size_t have = 0;
  };

  int member = 0;
  Clock::duration deadline{};
  OnLost on_lost;
  std::vector<Introduction> members;
  std::vector<Peer> peers;
  std::function<void()> still_here;
  bool has_lost = false;
  Clock::time_point lost_at;
  std::atomic<bool> is_ending{false};
  std::thread thread;

  void report(int lost, bool is_gone) {
    if (has_lost) return;
    has_lost = true;
    lost_at = Clock::now();
    for (const Peer& peer : peers)
      if (!peer.has_left && peer.member != lost)
        send_plain(peer.socket, SignMessage{Sign::kLost, is_gone, lost});
    const Introduction& known = members[lost];
    on_lost({lost, known.host.data(), known.process, is_gone});
  }

  void take(Peer& peer, const SignMessage& message) {
    if (message.sign == Sign::kLeaves) peer.has_left = true;
    if (message.sign == Sign::kLost) report(message.member, message.is_gone != 0);
  }

  /// What has come over a connection, or its end.
  void read(Peer& peer) {
    for (;;) {
      const ssize_t count = recv(peer.socket.get(), peer.partial.data() + peer.have,
                                 peer.partial.size() - peer.have, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (count <= 0) {
        const bool has_said_so = peer.has_left;
        peer.has_left = true;
        if (!has_said_so) report(peer.member, true);
        return;
      }
      peer.heard = Clock::now();
      peer.have += static_cast<size_t>(count);
      if (peer.have < peer.partial.size()) continue;
      peer.have = 0;
      SignMessage message;
      std::memcpy(&message, peer.partial.data(), sizeof message);
      take(peer, message);
    }
  }

  void watch() {
    std::vector<pollfd> descriptors;
    Clock::time_point looked = Clock::now(), beat = looked;
    while (!is_ending.load()) {
      descriptors.clear();
      for (const Peer& peer : peers)
        descriptors.push_back({peer.has_left ? -1 : peer.socket.get(), POLLIN, 0});
      poll(descriptors.data(), descriptors.size(), static_cast<int>(kBeat.count()));
      const auto now = Clock::now();
      // Whoever was stopped itself has heard nobody for as long.
      const bool was_stopped = now - looked > deadline / 2;
      looked = now;
      const bool is_time_to_beat = now - beat >= kBeat;
      if (is_time_to_beat) beat = now;
      for (Peer& peer : peers) {
        if (was_stopped) peer.heard = now;
        if (peer.has_left) continue;
        read(peer);
        if (!peer.has_left && now - peer.heard > deadline) report(peer.member, false);
        if (!peer.has_left && is_time_to_beat) send_plain(peer.socket, SignMessage{});
      }
      if (has_lost && now - lost_at > kPatienceAfterALoss) return still_here();
    }
    for (const Peer& peer : peers)
      if (!peer.has_left) send_plain(peer.socket, SignMessage{Sign::kLeaves, 0, 0});
  }

  void accept_all(const Socket& listener, uint64_t secret) {
    while (peers.size() + 1 < members.size()) {
      pollfd waiting{listener.get(), POLLIN, 0};
      if (poll(&waiting, 1, 30'000) <= 0) cannot_connect("not all have connected");
      Socket connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const timeval patience{5, 0};
      setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      Hello hello;
      if (recv(connection.get(), &hello, sizeof hello, MSG_WAITALL) !=
              static_cast<ssize_t>(sizeof hello) ||
          hello.secret != secret)
        continue;
      peers.push_back({hello.member, std::move(connection)});
    }
  }
};

Liveness::Liveness(Network& network, Seconds deadline, OnLost on_lost,
                   std::function<void()> still_here)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.member = network.member();
  s.deadline = clock_time(deadline);
  s.on_lost = std::move(on_lost);
  s.still_here = std::move(still_here);
  Introduction mine;
  const std::string host = this_host();
  std::memcpy(mine.host.data(), host.data(), host.size());
  mine.process = getpid();
  Socket listener;
  if (s.member == 0) {
    listener = listen_anywhere(mine.port);
    mine.secret = drawn_secret();
  }
  Meeting meeting;
  network.meet(std::as_bytes(std::span(&mine, 1)), meeting, Seconds(60));
  for (int member = 0; member < network.members(); ++member)
    std::memcpy(&s.members.emplace_back(), meeting.of(member).data(), sizeof(Introduction));
  if (s.member == 0) {
    s.accept_all(listener, mine.secret);
  } else {
    s.peers.push_back({0, connect_to(s.members[0])});
    if (!send_plain(s.peers[0].socket, Hello{s.members[0].secret, s.member}))
      cannot_connect("member 0 does not answer");
  }
  s.thread = std::thread([&s] { s.watch(); });
}

Liveness::~Liveness() {
  state_->is_ending.store(true);
  state_->thread.join();
}

}  // namespace tessera
