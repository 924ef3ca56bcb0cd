#include "stack/plan/pin.h"

#include <gmock/gmock.h>

#include "stack/object/memory_store.h"
#include "stack/object/tree_digest.h"
#include "stack/plan/claim.h"
#include "stack/plan/ownership.h"

namespace tessera::stack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Listing list(const std::string& before, const std::string& after) {
  MemoryStore blobs;
  const auto tree_of = [&](const std::string& text) {
    Tree tree;
    tree.entries.push_back({.path = "f.py", .oid = *blobs.write(text), .size = text.size()});
    return tree;
  };
  return *make_listing(tree_of(before), tree_of(after), blobs);
}

// Three places of one file that get the same line; which ones do is said by `marks`.
std::string text(const std::string& marks, const std::string& middle = "beta") {
  std::string out;
  int at = 0;
  for (const std::string& name : {std::string("alpha"), middle, std::string("gamma")}) {
    out += "def " + name + "():\n    start_" + name + "()\n" +
           (marks[static_cast<std::size_t>(at++)] == 'x' ? "    log()\n" : "") + "    end_" + name +
           "()\n\n\n\n";
  }
  return out;
}

// The section that a pin means in another tree; "?" when several fit, "" when none does.
std::string meant(const std::string& pin, const Listing& now) {
  const auto claim = parse_claim(pin);
  EXPECT_TRUE(claim.ok()) << pin;
  const PinMatch match = find_pinned(now, EqualAtoms(now), *claim);
  if (match.candidates.size() > 1) return "?";
  return match.candidates.empty()
             ? ""
             : now.atoms[static_cast<std::size_t>(match.candidates[0])].sections.back().name;
}

TEST(Pin, OnlyAtomsWithEqualsCarryEvidence) {
  const Listing one = list(text("..."), text("x.."));
  EXPECT_EQ(pin_of(one, EqualAtoms(one), 0), "h:" + one.atoms[0].id);
  const Listing three = list(text("..."), text("xxx"));
  ASSERT_EQ(three.atoms.size(), 3u);
  EXPECT_THAT(pin_of(three, EqualAtoms(three), 1), HasSubstr(three.atoms[1].id + "~3:"));
  EXPECT_THAT(EqualAtoms(three).of(1), ElementsAre(0, 1, 2));
}

TEST(Pin, WithAsManyEqualsTheOrdinalDecides) {
  const Listing was = list(text("..."), text("xxx"));
  const std::string pin = pin_of(was, EqualAtoms(was), 1);
  EXPECT_EQ(meant(pin, was), "beta");
  EXPECT_EQ(meant(pin, list("# top\n" + text("..."), "# top\n" + text("xxx"))), "beta");
}

TEST(Pin, WithFewerOrMoreEqualsTheNeighboursDecide) {
  const Listing was = list(text("..."), text("xxx"));
  const EqualAtoms equal(was);
  const Listing fewer = list(text("..."), text(".xx"));
  EXPECT_EQ(meant(pin_of(was, equal, 1), fewer), "beta");
  EXPECT_EQ(meant(pin_of(was, equal, 2), fewer), "gamma");  // its ordinal is gone
  EXPECT_EQ(meant(pin_of(was, equal, 0), fewer), "");       // not another one in its place
  const EqualAtoms equal_fewer(fewer);
  EXPECT_EQ(meant(pin_of(fewer, equal_fewer, 0), was), "beta");  // h:…0 is alpha's id by now
  EXPECT_EQ(meant(pin_of(fewer, equal_fewer, 1), was), "gamma");
}

TEST(Pin, EqualEvidenceIsAskedNotGuessed) {
  const std::string same = "x\n\n\n\n\n\n\nx\n\n\n\n\n\n\nx\n\n\n\n\n\n\nx\n";
  const auto marked = [](int from) {
    std::string out;
    for (int i = 0; i < 4; ++i)
      out += std::string(i >= from ? "x\ny\n" : "x\n") + (i < 3 ? "\n\n\n\n\n\n" : "");
    return out;
  };
  const Listing was = list(same, marked(0));
  const std::string pin = pin_of(was, EqualAtoms(was), 1);
  const Listing now = list(same, marked(1));
  EXPECT_EQ(meant(pin, now), "?");
  Plan plan;
  plan.buckets.emplace_back();
  plan.buckets[0].name = "b";
  plan.buckets[0].pins.push_back(*parse_claim(pin));
  const ClaimResolution claims = resolve_claims(plan, now, "stack.toml");
  ASSERT_EQ(claims.errors.size(), 1u);
  EXPECT_THAT(claims.errors[0].message(), HasSubstr("Of 4 equal blocks 3 are left"));
}

TEST(Pin, WhatSomebodyTypedBehindTheTildeIsRefused) {
  for (const char* pin : {"h:0123456789abcdef~", "h:0123456789abcdef~1:00000000:00000000:00000000",
                          "h:0123456789abcdef~3:0:0:0", "h:0123456789abcdef~3:00000000:00000000:00000000:"})
    EXPECT_FALSE(parse_claim(pin).ok()) << pin;
  EXPECT_TRUE(parse_claim("h:0123456789abcdef~3:00000000:00000000:00000000").ok());
}

}  // namespace
}  // namespace tessera::stack
