// The contract of a transport, as what every member does and sees; run over each implementation. And members as threads of a test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/transport.h"

namespace tessera::testing_transport {

/// One side of the contract: keeps what has come in, by sender.
class ContractMember {
 public:
  explicit ContractMember(Transport& transport) : transport_(transport), inbox_(static_cast<size_t>(transport.members())) {}

  Transport& transport() { return transport_; }
  std::vector<int> others() const {
    std::vector<int> list;
    for (int member = 0; member < transport_.members(); ++member)
      if (member != transport_.member()) list.push_back(member);
    return list;
  }

  /// Polls until it is so; a minute is for ever.
  bool poll_until(const std::function<bool()>& is_so) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!is_so()) {
      if (std::chrono::steady_clock::now() > end) return false;
      const bool moved = transport_.poll([this](int from, std::span<const std::byte> message) {
        inbox_[static_cast<size_t>(from)].emplace_back(reinterpret_cast<const char*>(message.data()), message.size());
      });
      if (!moved) std::this_thread::yield();
    }
    return true;
  }

  void send(int to, const std::string& text) { transport_.send(to, std::as_bytes(std::span(text))); }
  std::string next_from(int from) {
    auto& inbox = inbox_[static_cast<size_t>(from)];
    if (!poll_until([&] { return !inbox.empty(); })) return "nothing came";
    const std::string message = inbox.front();
    inbox.pop_front();
    return message;
  }
  /// All are here.
  void meet() {
    for (int to : others()) send(to, "here");
    for (int from : others()) ASSERT_EQ(next_from(from), "here");
  }

 private:
  Transport& transport_;
  std::vector<std::deque<std::string>> inbox_;
};

/// What `from` tells `to` as its message `number`, of a size of its own.
inline std::string told(int from, int to, int number) {
  std::string text = std::to_string(from) + ">" + std::to_string(to) + " " + std::to_string(number) + ":";
  text.resize(number % 7 == 6 ? Transport::kMostMessageBytes : text.size() + static_cast<size_t>(number) % 97,
              static_cast<char>('a' + number % 26));
  return number == 3 ? "" : text;
}

/// Messages of a pair arrive once and in order, also when nobody looks for a while.
inline void messages_arrive_once_and_in_order(ContractMember& me) {
  constexpr int kCount = 400;
  const int self = me.transport().member();
  for (int number = 0; number < kCount; ++number)
    for (int to : me.others()) me.send(to, told(self, to, number));
  for (int number = 0; number < kCount; ++number)
    for (int from : me.others()) ASSERT_EQ(me.next_from(from), told(from, self, number)) << "from " << from << ", message " << number;
  me.meet();
}

inline std::vector<std::byte> piece(int from, int to, int tag, int number, size_t size) {
  std::vector<std::byte> bytes(size);
  const auto start = static_cast<unsigned>(from * 31 + to * 17 + tag * 7 + number);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((start + i * 2654435761U) >> 8);
  return bytes;
}

/// Pieces of memory go to the receive of their pair and tag, in order, whatever their sizes.
inline void pieces_go_where_their_tag_says(ContractMember& me) {
  const std::vector<size_t> sizes{1, 64, 4095, 70000, (1 << 20) + 3, 12};
  constexpr int kTags = 3;
  const int self = me.transport().member();
  Countdown received{0}, sent{0};
  std::vector<std::vector<std::byte>> targets, sources;
  const auto for_each_piece = [&](const auto& act) {
    for (int other : me.others())
      for (int number = 0; number < static_cast<int>(sizes.size()); ++number)
        for (int tag = 0; tag < kTags; ++tag) act(other, tag, number, sizes[static_cast<size_t>(number)]);
  };
  for_each_piece([&](int, int, int, size_t size) { targets.emplace_back(size); });
  for_each_piece([&](int to, int tag, int number, size_t size) { sources.push_back(piece(self, to, tag, number, size)); });
  received = sent = static_cast<int>(targets.size());
  size_t at = 0;
  for_each_piece([&](int from, int tag, int, size_t) { me.transport().receive(from, tag, targets[at++], received); });
  for (int to : me.others()) me.send(to, "ready");
  for (int from : me.others()) ASSERT_EQ(me.next_from(from), "ready");
  at = 0;
  for_each_piece([&](int to, int tag, int, size_t) { me.transport().send_data(to, tag, sources[at++], sent); });
  ASSERT_TRUE(me.poll_until([&] { return received == 0 && sent == 0; })) << received << " pieces missing, " << sent << " not gone";
  at = 0;
  for_each_piece([&](int from, int tag, int number, size_t size) {
    EXPECT_TRUE(targets[at++] == piece(from, self, tag, number, size)) << "from " << from << ", tag " << tag << ", piece " << number;
  });
  me.meet();
}

/// All of it, one after the other.
inline void keeps_its_contract(Transport& transport) {
  ContractMember me(transport);
  EXPECT_GE(transport.tags(), 32768);
  messages_arrive_once_and_in_order(me);
  pieces_go_where_their_tag_says(me);
  messages_arrive_once_and_in_order(me);
}

/// Members as threads: work(its transport) for each.
inline void on_members(std::vector<std::unique_ptr<Transport>> transports, const std::function<void(std::unique_ptr<Transport>)>& work) {
  std::vector<std::thread> threads;
  for (auto& transport : transports) threads.emplace_back([&work, mine = std::move(transport)]() mutable { work(std::move(mine)); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tessera::testing_transport
