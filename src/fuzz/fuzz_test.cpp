#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <set>

#include "fuzz/fuzz_case.h"
#include "ops/operator.h"

namespace tessera::fuzz {
namespace {

TEST(Scratch, Run) {
  const uint64_t first = std::getenv("SEED") ? std::stoull(std::getenv("SEED")) : 1;
  const uint64_t cases = std::getenv("CASES") ? std::stoull(std::getenv("CASES")) : 200;
  std::map<std::string, int> kinds, failures;
  double make = 0, run = 0;
  int64_t ops = 0, exact = 0;
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    auto t0 = std::chrono::steady_clock::now();
    FuzzCase c = random_case(seed);
    auto t1 = std::chrono::steady_clock::now();
    if (std::getenv("PRINT")) std::cout << to_text(c);
    auto failure = run_case(c);
    auto t2 = std::chrono::steady_clock::now();
    make += std::chrono::duration<double>(t1 - t0).count();
    run += std::chrono::duration<double>(t2 - t1).count();
    for (const Op& op : c.graph.ops()) ++kinds[op.kind];
    ops += c.graph.ops().size();
    exact += c.exact;
    if (failure) {
      std::cout << "seed " << seed << (c.exact ? " exact " : " general ") << failure->text << "\n";
      ++failures["n"];
    }
  }
  std::cout << "make " << make << " run " << run << " ops " << ops << " exact " << exact << " failures " << failures["n"] << "\n";
  for (auto& op : all_operators()) std::cout << op->name << " " << kinds[std::string(op->name)] << ", ";
  std::cout << "\n";
}

}  // namespace
}  // namespace tessera::fuzz
