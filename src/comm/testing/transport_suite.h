// The contract of a transport, as what every member does and sees; run over each implementation.
// And members as threads of a test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/transport.h"

namespace tessera::testing_transport {

/// One side of the contract: keeps what has come in, by sender.
class ContractMember {
 public:
  explicit ContractMember(Transport& transport)
      : transport_(transport), inbox_(static_cast<size_t>(transport.members())) {}

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
  std::string text =
      std::to_string(from) + ">" + std::to_string(to) + " " + std::to_string(number) + ":";
  text.resize(number % 7 == 6 ? Transport::kMostMessageBytes
                              : text.size() + static_cast<size_t>(number) % 97,
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
    for (int from : me.others())
      ASSERT_EQ(me.next_from(from), told(from, self, number))
          << "from " << from << ", message " << number;
  me.meet();
}

inline std::vector<std::byte> piece(int from, int to, int tag, int number, size_t size) {
  std::vector<std::byte> bytes(size);
  const auto start = static_cast<unsigned>(from * 31 + to * 17 + tag * 7 + number);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((start + i * 2654435761U) >> 8);
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
        for (int tag = 0; tag < kTags; ++tag) act(other, tag, number, sizes[number]);
  };
  for_each_piece([&](int, int, int, size_t size) { targets.emplace_back(size); });
  for_each_piece([&](int to, int tag, int number, size_t size) {
    sources.push_back(piece(self, to, tag, number, size));
  });
  received = sent = static_cast<int>(targets.size());
  size_t at = 0;
  for_each_piece([&](int from, int tag, int, size_t) {
    me.transport().receive(from, tag, targets[at++], received);
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
  me.meet();
}

/// Of small integers, whose sums no order changes.
inline float given_by(int member, int element) {
  return static_cast<float>((member * 7 + element * 3) % 11);
}

/// Groups do together what the names say: all members, and each pair of neighbours; several at a
/// time, begun in one order.
inline void groups_do_together_what_the_names_say(ContractMember& me) {
  const int self = me.transport().member(), members = me.transport().members();
  std::vector<std::vector<int>> groups(1);
  for (int member = 0; member < members; ++member) groups[0].push_back(member);
  for (int first = 0; first + 1 < members; ++first) groups.push_back({first, first + 1});
  for (const std::vector<int>& group : groups) {
    const auto at = std::find(group.begin(), group.end(), self);
    if (at == group.end()) continue;
    const auto place = static_cast<size_t>(at - group.begin());
    const int number = me.transport().new_group(group);
    Collective scatter{.kind = Collective::Kind::kReduceScatter, .members = group};
    int whole = 0;
    for (size_t i = 0; i < group.size(); ++i) {  // uneven
      scatter.begins.push_back(whole);
      scatter.counts.push_back(3 + static_cast<int>(i));
      whole += scatter.counts.back();
    }
    Collective gather = scatter,
               sum{.kind = Collective::Kind::kAllReduce, .members = group, .counts = {whole}};
    gather.kind = Collective::Kind::kAllGather;
    std::vector<float> mine, sums(static_cast<size_t>(whole)),
        part(static_cast<size_t>(scatter.counts[place])), all(sums.size());
    for (int i = 0; i < whole; ++i) mine.push_back(given_by(self, i));
    const auto in = [](const std::vector<float>& list) {
      return reinterpret_cast<const std::byte*>(list.data());
    };
    const auto out = [](std::vector<float>& list) {
      return reinterpret_cast<std::byte*>(list.data());
    };
    Countdown under_way{3};
    me.transport().begin(sum, number, in(mine), out(sums), under_way);
    me.transport().begin(scatter, number, in(mine), out(part), under_way);
    me.transport().begin(gather, number, in(mine), out(all), under_way);
    ASSERT_TRUE(me.poll_until([&] { return under_way == 0; })) << under_way << " are missing";
    std::vector<float> expected_sums(sums.size(), 0), expected_all;
    for (size_t i = 0; i < group.size(); ++i) {
      for (size_t e = 0; e < sums.size(); ++e)
        expected_sums[e] += given_by(group[i], static_cast<int>(e));
      for (int e = 0; e < gather.counts[i]; ++e) expected_all.push_back(given_by(group[i], e));
    }
    const auto begin = expected_sums.begin() + scatter.begins[place];
    EXPECT_EQ(sums, expected_sums);
    EXPECT_EQ(part, std::vector<float>(begin, begin + scatter.counts[place]));
    EXPECT_EQ(all, expected_all);
  }
  me.meet();
}

/// All of it, one after the other.
inline void keeps_its_contract(Transport& transport) {
  ContractMember me(transport);
  EXPECT_GE(transport.tags(), 32768);
  messages_arrive_once_and_in_order(me);
  pieces_go_where_their_tag_says(me);
  groups_do_together_what_the_names_say(me);
  messages_arrive_once_and_in_order(me);
}

/// Members as threads: work(its transport) for each.
inline void on_members(std::vector<std::unique_ptr<Transport>> transports,
                       const std::function<void(std::unique_ptr<Transport>)>& work) {
  std::vector<std::thread> threads;
  for (auto& transport : transports)
    threads.emplace_back([&work, mine = std::move(transport)]() mutable { work(std::move(mine)); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tessera::testing_transport
