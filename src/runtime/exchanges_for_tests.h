// Exchanges that are run with ranks as threads and over every transport: gathers, sums, transposes; rows and columns, even and uneven, small
// ones and such that travel in pieces.
#pragma once

#include <string>
#include <vector>

#include "runtime/programs_for_tests.h"

namespace tessera::testing_programs {

struct Way {
  std::string mesh, from, to;
};

inline const std::vector<Way>& ways_between_members() {
  static const std::vector<Way> all{
      {"dp=4", "f32[8@dp, 3]", "f32[8, 3]"},
      {"dp=4", "f32[3, 8@dp]", "f32[3, 8]"},
      {"dp=4", "f32[5@dp, 2]", "f32[5, 2]"},
      {"dp=4", "f32[9] {partial sum: dp}", "f32[9]"},
      {"dp=4", "f32[300, 1001] {partial sum: dp}", "f32[300, 1001]"},
      {"dp=4", "f32[700, 1001] {partial sum: dp}", "f32[700, 1001@dp]"},
      {"dp=4", "f32[300, 999@dp]", "f32[300@dp, 999]"},
      {"dp=4", "bool[5] {partial any: dp}", "bool[5]"},
      {"dp=4", "i32[5] {partial min: dp}", "i32[5]"},
      {"dp=2 tp=2", "f32[8@dp, 6@tp]", "f32[8@tp, 6@dp]"},
      {"dp=2 tp=2", "f32[500@dp, 600] {partial sum: tp}", "f32[500@dp, 600@tp]"},
      {"dp=3 tp=2", "f32[8@dp, 6] {partial sum: tp}", "f32[8@tp, 6@dp]"},
  };
  return all;
}

inline HandMade resharding(const Way& way) {
  HandMade made(mesh_of(way.mesh));
  const RegisterIndex source = feed_anything(made, "x", way.from);
  made.result("x", made.reshard("x", source, way.to));
  return made;
}

}  // namespace tessera::testing_programs
