// A variant whose special members are compiled once.
//
// The events of a run are a variant of forty structs. std::variant's copy, move, comparison and destructor
// are templates, so every file that holds such a value compiles all of them again: most of the time and of
// the object code of a typical file here. OneOf<Variant> is that variant with those members out of the class,
// so that they can be instantiated explicitly: `extern template class OneOf<V>` in the header, `template
// class OneOf<V>` in one .cc file. std::visit, std::get, std::get_if and std::holds_alternative take it as
// they take its base.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>
#include <variant>

namespace sandglass::engine::core {

template <class Variant>
struct VariantTraits;
template <class... Alternatives>
struct VariantTraits<std::variant<Alternatives...>> {
  template <class T>
  static constexpr bool has = (std::same_as<T, Alternatives> || ...);
  static constexpr bool comparable = (std::equality_comparable<Alternatives> && ...);
};

template <class Variant>
class OneOf : public Variant {
 public:
  OneOf();
  OneOf(const OneOf& other);
  OneOf(OneOf&& other) noexcept;
  OneOf& operator=(const OneOf& other);
  OneOf& operator=(OneOf&& other) noexcept;
  ~OneOf();

  template <class T>
    requires VariantTraits<Variant>::template
  has<std::remove_cvref_t<T>> OneOf(
      T&& alternative)  // NOLINT(google-explicit-constructor): every T is a OneOf
      : Variant(std::in_place_type<std::remove_cvref_t<T>>, std::forward<T>(alternative)) {}

  bool operator==(const OneOf& other) const
    requires VariantTraits<Variant>::comparable;
};

template <class Variant>
OneOf<Variant>::OneOf() = default;
template <class Variant>
OneOf<Variant>::OneOf(const OneOf& other) = default;
template <class Variant>
OneOf<Variant>::OneOf(OneOf&& other) noexcept = default;
template <class Variant>
OneOf<Variant>& OneOf<Variant>::operator=(const OneOf& other) = default;
template <class Variant>
OneOf<Variant>& OneOf<Variant>::operator=(OneOf&& other) noexcept = default;
template <class Variant>
OneOf<Variant>::~OneOf() = default;
template <class Variant>
bool OneOf<Variant>::operator==(const OneOf& other) const
  requires VariantTraits<Variant>::comparable
{
  return static_cast<const Variant&>(*this) == static_cast<const Variant&>(other);
}

}  // namespace sandglass::engine::core
