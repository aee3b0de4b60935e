// The contract of a transport, checked by all processes together for each implementation; and
// processes that are threads of a test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/transport.h"

namespace tessera::testing_transport {

/// One side of the contract: keeps what has come in, by sender.
class ContractProcess {
 public:
  explicit ContractProcess(Transport& transport)
      : transport_(transport), inbox_(static_cast<size_t>(transport.size())) {}

  Transport& transport() { return transport_; }
  std::vector<int> others() const {
    std::vector<int> list;
    for (int process = 0; process < transport_.size(); ++process)
      if (process != transport_.process()) list.push_back(process);
    return list;
  }

  /// Polls until it is so, for at most three minutes.
  bool poll_until(const std::function<bool()>& is_so) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(3);
    while (!is_so()) {
      if (std::chrono::steady_clock::now() > end) return false;
      const bool moved = transport_.poll([this](int from, std::span<const std::byte> message) {
        inbox_[from].emplace_back(reinterpret_cast<const char*>(message.data()), message.size());
      });
      if (!moved) std::this_thread::yield();
    }
    return true;
  }

  void send(int to, const std::string& text) {
    transport_.send(to, std::as_bytes(std::span(text)));
  }
  std::string next_from(int from) {
    auto& inbox = inbox_[from];
    if (!poll_until([&] { return !inbox.empty(); })) return "no message arrived";
    const std::string message = inbox.front();
    inbox.pop_front();
    return message;
  }
  void barrier() {
    for (int to : others()) send(to, "here");
    for (int from : others()) ASSERT_EQ(next_from(from), "here");
  }

 private:
  Transport& transport_;
  std::vector<std::deque<std::string>> inbox_;
};

/// Message `number` of a pair; sizes differ.
inline std::string message_text(int from, int to, int number) {
  std::string text =
      std::to_string(from) + ">" + std::to_string(to) + " " + std::to_string(number) + ":";
  text.resize(number % 7 == 6 ? Transport::kMaxMessageBytes
                              : text.size() + static_cast<size_t>(number) % 97,
              static_cast<char>('a' + number % 26));
  return number == 3 ? "" : text;
}

/// Messages of a pair arrive once and in order, also when the receiver does not poll for a while.
inline void messages_arrive_once_and_in_order(ContractProcess& me) {
  constexpr int kCount = 400;
  const int self = me.transport().process();
  for (int number = 0; number < kCount; ++number)
    for (int to : me.others()) me.send(to, message_text(self, to, number));
  for (int number = 0; number < kCount; ++number)
    for (int from : me.others())
      ASSERT_EQ(me.next_from(from), message_text(from, self, number))
          << "from " << from << ", message " << number;
  me.barrier();
}

inline std::vector<std::byte> piece(int from, int to, int tag, int number, size_t size) {
  std::vector<std::byte> bytes(size);
  const auto start = static_cast<unsigned>(from * 31 + to * 17 + tag * 7 + number);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((start + i * 2654435761U) >> 8);
  return bytes;
}

/// Pieces of memory match the receives of their pair and tag in order, for all sizes.
inline void pieces_match_by_pair_and_tag(ContractProcess& me) {
  const std::vector<size_t> sizes{1, 64, 4095, 70000, (1 << 20) + 3, 12};
  constexpr int kTags = 3;
  const int self = me.transport().process();
  Countdown received{0}, sent{0};
  std::vector<std::vector<std::byte>> targets, sources;
  const auto for_each_piece = [&](const auto& act) {
    for (int other : me.others())
      for (int number = 0; number < static_cast<int>(sizes.size()); ++number)
        for (int tag = 0; tag < kTags; ++tag) act(other, tag, number, sizes[number]);
  };
  for_each_piece([&](int, int, int, size_t size) { targets.emplace_back(size); });
  for_each_piece([&](int to, int tag, int number, size_t size) {
    sources.push_back(piece(self, to, tag, number, size));
  });
  received = sent = static_cast<int>(targets.size());
  size_t at = 0;
  for_each_piece([&](int from, int tag, int, size_t) {
    me.transport().recv_data(from, tag, targets[at++], received);
  });
  for (int to : me.others()) me.send(to, "ready");
  for (int from : me.others()) ASSERT_EQ(me.next_from(from), "ready");
  at = 0;
  for_each_piece([&](int to, int tag, int, size_t) {
    me.transport().send_data(to, tag, sources[at++], sent);
  });
  ASSERT_TRUE(me.poll_until([&] { return received == 0 && sent == 0; }))
      << received << " pieces missing, " << sent << " not gone";
  at = 0;
  for_each_piece([&](int from, int tag, int number, size_t size) {
    EXPECT_TRUE(targets[at++] == piece(from, self, tag, number, size))
        << "from " << from << ", tag " << tag << ", piece " << number;
  });
  me.barrier();
}

/// Small integers: their sums are exact in any order.
inline float given_by(int process, int element) {
  return static_cast<float>((process * 7 + element * 3) % 11);
}

/// Collectives of all processes and of each pair of neighbours; several in flight, started in one
/// order.
inline void collectives_are_those_of_mpi(ContractProcess& me) {
  const int self = me.transport().process(), size = me.transport().size();
  std::vector<std::vector<int>> groups(1);
  for (int process = 0; process < size; ++process) groups[0].push_back(process);
  for (int first = 0; first + 1 < size; ++first) groups.push_back({first, first + 1});
  for (const std::vector<int>& group : groups) {
    const auto at = std::find(group.begin(), group.end(), self);
    if (at == group.end()) continue;
    const auto own = static_cast<size_t>(at - group.begin());
    const int number = me.transport().split(group);
    Collective scatter{.kind = Collective::Kind::kReduceScatter, .processes = group};
    int whole = 0;
    for (size_t i = 0; i < group.size(); ++i) {  // uneven
      scatter.begins.push_back(whole);
      scatter.counts.push_back(3 + static_cast<int>(i));
      whole += scatter.counts.back();
    }
    Collective gather = scatter,
               sum{.kind = Collective::Kind::kAllReduce, .processes = group, .counts = {whole}};
    gather.kind = Collective::Kind::kAllGather;
    std::vector<float> mine, sums(static_cast<size_t>(whole)),
        part(static_cast<size_t>(scatter.counts[own])), all(sums.size());
    for (int i = 0; i < whole; ++i) mine.push_back(given_by(self, i));
    const auto in = [](const std::vector<float>& list) {
      return reinterpret_cast<const std::byte*>(list.data());
    };
    const auto out = [](std::vector<float>& list) {
      return reinterpret_cast<std::byte*>(list.data());
    };
    Countdown in_flight{3};
    me.transport().start(sum, {number}, in(mine), out(sums), in_flight);
    me.transport().start(scatter, {number}, in(mine), out(part), in_flight);
    me.transport().start(gather, {number}, in(mine), out(all), in_flight);
    ASSERT_TRUE(me.poll_until([&] { return in_flight == 0; })) << in_flight << " are missing";
    std::vector<float> expected_sums(sums.size(), 0), expected_all;
    for (size_t i = 0; i < group.size(); ++i) {
      for (size_t e = 0; e < sums.size(); ++e)
        expected_sums[e] += given_by(group[i], static_cast<int>(e));
      for (int e = 0; e < gather.counts[i]; ++e) expected_all.push_back(given_by(group[i], e));
    }
    const auto begin = expected_sums.begin() + scatter.begins[own];
    EXPECT_EQ(sums, expected_sums);
    EXPECT_EQ(part, std::vector<float>(begin, begin + scatter.counts[own]));
    EXPECT_EQ(all, expected_all);
  }
  me.barrier();
}

/// The messages that make a group match no receive of data, whatever its tag.
inline void groups_are_made_while_receives_are_posted(ContractProcess& me) {
  std::vector<int> all(static_cast<size_t>(me.transport().size()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<float> received(all.size());
  const std::vector<float> sent{2.5F};
  Countdown in_flight = 2 * static_cast<int>(me.others().size());
  for (int from : me.others())
    me.transport().recv_data(from, 0, std::as_writable_bytes(std::span(&received[from], 1)),
                             in_flight);
  me.barrier();
  me.transport().split(all);
  for (int to : me.others())
    me.transport().send_data(to, 0, std::as_bytes(std::span(sent)), in_flight);
  ASSERT_TRUE(me.poll_until([&] { return in_flight == 0; })) << in_flight << " are missing";
  for (int from : me.others()) EXPECT_EQ(received[from], sent[0]) << "from " << from;
  me.barrier();
}

/// All parts of the contract, one after the other.
inline void keeps_its_contract(Transport& transport) {
  ContractProcess me(transport);
  EXPECT_GE(transport.tags(), 32768);
  messages_arrive_once_and_in_order(me);
  pieces_match_by_pair_and_tag(me);
  collectives_are_those_of_mpi(me);
  groups_are_made_while_receives_are_posted(me);
  messages_arrive_once_and_in_order(me);
}

/// Process 0 destroys its transport before the others receive what it has sent.
///   sender_ended  process 0 calls it then, the others call it to wait for that
inline void messages_arrive_when_their_sender_ends(std::unique_ptr<Transport> transport,
                                                   const std::function<void()>& sender_ended) {
  constexpr int kCount = 14;  // two of them have kMaxMessageBytes
  const int self = transport->process();
  ContractProcess me(*transport);
  for (int number = 0; self == 0 && number < kCount; ++number)
    for (int to : me.others()) me.send(to, message_text(0, to, number));
  if (self == 0) transport.reset();
  sender_ended();
  if (self == 0) return;
  for (int number = 0; number < kCount; ++number)
    ASSERT_EQ(me.next_from(0), message_text(0, self, number));
}

/// Processes as threads: work(its transport) for each.
inline void on_processes(std::vector<std::unique_ptr<Transport>> transports,
                         const std::function<void(std::unique_ptr<Transport>)>& work) {
  std::vector<std::thread> threads;
  for (auto& transport : transports)
    threads.emplace_back([&work, mine = std::move(transport)]() mutable { work(std::move(mine)); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tessera::testing_transport
