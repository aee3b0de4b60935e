#include "runtime/comm/liveness.h"

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

#include "base/error.h"
#include "base/files/descriptor.h"
#include "base/threads/clock_time.h"
#include "runtime/comm/plain_bytes.h"

namespace tessera {

/// The message that each process sends to all others before it connects.
struct LivenessIntroduction {
  std::array<char, 256> host{};
  int64_t pid = 0;
  uint64_t secret = 0;  // of process 0: a process that connects sends it
  uint16_t port = 0;    // of process 0
};

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kInterval = std::chrono::milliseconds(200);
/// The time that ranks have to notice that the run stops.
constexpr auto kTimeToStop = std::chrono::seconds(5);

/// A message over a connection: a heartbeat, that the sender leaves, or that a process was lost.
struct WatchMessage {
  enum class Kind : uint8_t { kHeartbeat, kLeaves, kLost };
  Kind kind = Kind::kHeartbeat;
  uint8_t has_ended = 0;  // of kLost
  int32_t process = 0;    // of kLost
};

struct Hello {
  uint64_t secret = 0;
  int32_t process = 0;
};

[[noreturn]] void cannot_connect(const std::string& what) {
  throw UserError(
      "the processes of this run cannot connect to watch each other: " + what, std::strerror(errno),
      "check that the machines reach each other over TCP, by the names that hostname prints");
}

std::string this_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

uint64_t make_secret() {
  uint64_t secret = 0;
  if (getentropy(&secret, sizeof secret) != 0) cannot_connect("the system gives no random bytes");
  return secret;
}

Descriptor listen_anywhere(uint16_t& port) {
  Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = INADDR_ANY;
  socklen_t size = sizeof address;
  if (!listener.is_open() ||
      bind(listener.number(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener.number(), 1024) != 0 ||
      getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    cannot_connect("process 0 cannot listen");
  port = ntohs(address.sin_port);
  return listener;
}

Descriptor connect_to(const LivenessIntroduction& first) {
  const std::string host = first.host.data();
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  const std::string address_text = host == this_host() ? "127.0.0.1" : host;
  if (getaddrinfo(address_text.c_str(), std::to_string(first.port).c_str(), &hints, &found) != 0)
    cannot_connect("no address of '" + host + "'");
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  for (const addrinfo* address = found; address; address = address->ai_next) {
    Descriptor connection(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connection.is_open() &&
        connect(connection.number(), address->ai_addr, address->ai_addrlen) == 0)
      return connection;
  }
  cannot_connect("no connection to '" + host + "'");
}

template <typename Plain>
bool send_plain(const Descriptor& to, const Plain& plain) {
  return ::send(to.number(), &plain, sizeof plain, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(sizeof plain);
}

}  // namespace

struct Liveness::State {
  /// One end of a connection.
  struct Peer {
    int process = 0;
    Descriptor socket;
    Clock::time_point last_heard = Clock::now();
    bool has_left = false;
    std::array<std::byte, sizeof(WatchMessage)> partial{};
    size_t have = 0;  // bytes in `partial`
  };

  int process = 0;
  Clock::duration deadline{};
  OnLost on_lost;
  std::vector<LivenessIntroduction> processes;
  std::vector<Peer> peers;
  std::function<void()> still_here;
  bool has_lost = false;
  Clock::time_point lost_at;
  std::atomic<bool> is_ending{false};
  std::thread thread;

  void report(int lost, bool has_ended) {
    if (has_lost) return;
    has_lost = true;
    lost_at = Clock::now();
    for (const Peer& peer : peers)
      if (!peer.has_left && peer.process != lost)
        send_plain(peer.socket, WatchMessage{WatchMessage::Kind::kLost, has_ended, lost});
    const LivenessIntroduction& known = processes[lost];
    on_lost({lost, known.host.data(), known.pid, has_ended});
  }

  void take(Peer& peer, const WatchMessage& message) {
    if (message.kind == WatchMessage::Kind::kLeaves) peer.has_left = true;
    if (message.kind == WatchMessage::Kind::kLost) report(message.process, message.has_ended != 0);
  }

  /// Takes the messages that have arrived, or the end of the connection.
  void read(Peer& peer) {
    for (;;) {
      const ssize_t count = recv(peer.socket.number(), peer.partial.data() + peer.have,
                                 peer.partial.size() - peer.have, MSG_DONTWAIT);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (count <= 0) {
        const bool is_expected = peer.has_left;
        peer.has_left = true;
        if (!is_expected) report(peer.process, true);
        return;
      }
      peer.last_heard = Clock::now();
      peer.have += count;
      if (peer.have < peer.partial.size()) continue;
      peer.have = 0;
      WatchMessage message;
      std::memcpy(&message, peer.partial.data(), sizeof message);
      take(peer, message);
    }
  }

  void watch() {
    std::vector<pollfd> descriptors;
    Clock::time_point last_round = Clock::now(), last_sent = last_round;
    while (!is_ending.load()) {
      descriptors.clear();
      for (const Peer& peer : peers)
        descriptors.push_back({peer.has_left ? -1 : peer.socket.number(), POLLIN, 0});
      poll(descriptors.data(), descriptors.size(), static_cast<int>(kInterval.count()));
      const auto now = Clock::now();
      // If this process itself was stopped, heartbeats of others were sent but not received.
      const bool was_stopped = now - last_round > deadline / 2;
      last_round = now;
      const bool is_time_to_send = now - last_sent >= kInterval;
      if (is_time_to_send) last_sent = now;
      for (Peer& peer : peers) {
        if (was_stopped) peer.last_heard = now;
        if (peer.has_left) continue;
        read(peer);
        if (!peer.has_left && now - peer.last_heard > deadline) report(peer.process, false);
        if (!peer.has_left && is_time_to_send) send_plain(peer.socket, WatchMessage{});
      }
      if (has_lost && now - lost_at > kTimeToStop) return still_here();
    }
    for (const Peer& peer : peers)
      if (!peer.has_left) send_plain(peer.socket, WatchMessage{WatchMessage::Kind::kLeaves, 0, 0});
  }

  void accept_all(const Descriptor& listener, uint64_t secret) {
    while (peers.size() + 1 < processes.size()) {
      pollfd waiting{listener.number(), POLLIN, 0};
      if (poll(&waiting, 1, 30'000) <= 0) cannot_connect("not all processes have connected");
      Descriptor connection(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
      const timeval timeout{5, 0};
      setsockopt(connection.number(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
      Hello hello;
      if (recv(connection.number(), &hello, sizeof hello, MSG_WAITALL) !=
              static_cast<ssize_t>(sizeof hello) ||
          hello.secret != secret)
        continue;
      peers.push_back({hello.process, std::move(connection)});
    }
  }
};

Liveness::Liveness(ProcessNetwork& network, Seconds deadline, OnLost on_lost,
                   std::function<void()> still_here)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.process = network.process();
  s.deadline = clock_time(deadline);
  s.on_lost = std::move(on_lost);
  s.still_here = std::move(still_here);
  LivenessIntroduction mine;
  const std::string host = this_host();
  std::memcpy(mine.host.data(), host.data(), host.size());
  mine.pid = getpid();
  Descriptor listener;
  if (s.process == 0) {
    listener = listen_anywhere(mine.port);
    mine.secret = make_secret();
  }
  GatheredBytes introductions;
  network.host().all_gather(bytes_of_plain(mine), introductions, Seconds(60));
  for (int process = 0; process < network.size(); ++process)
    std::memcpy(&s.processes.emplace_back(), introductions.at(process).data(),
                sizeof(LivenessIntroduction));
  if (s.process == 0) {
    s.accept_all(listener, mine.secret);
  } else {
    s.peers.push_back({0, connect_to(s.processes[0])});
    if (!send_plain(s.peers[0].socket, Hello{s.processes[0].secret, s.process}))
      cannot_connect("process 0 does not answer");
  }
  s.thread = std::thread([&s] { s.watch(); });
}

Liveness::~Liveness() {
  state_->is_ending.store(true);
  state_->thread.join();
}

}  // namespace tessera
