-- Writes what is known of a copy. KEYS[1] where it stands. ARGV: what.
redis.call('SET', KEYS[1], ARGV[1])
return 1
