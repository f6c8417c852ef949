# A tiny price library for POSIX shells. Amounts are whole cents.

# total PRICE COUNT: what COUNT pieces cost.
total() {
  echo $(($1 * $2))
}

# discount PRICE PERCENT: the price less PERCENT of it, rounded down.
discount() {
  echo $(($1 * (100 - $2) / 100))
}

# slug NAME: the name in lower case, its words joined by dashes.
slug() {
  printf '%s\n' "$1" | tr 'A-Z ' 'a-z-'
}
