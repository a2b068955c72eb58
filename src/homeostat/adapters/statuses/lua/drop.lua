-- Agents that left take everything with them but their settings.
for _, id in ipairs(ARGV) do
    redis.call('DEL', 'agent:registry:' .. id, 'agent:status:' .. id, 'agent:presence:' .. id, 'agent:history:' .. id)
    redis.call('ZREM', 'agent:due', id)
    redis.call('SREM', 'agent:active', id)
    redis.call('SREM', 'agent:stale', id)
    redis.call('SREM', 'agent:dead', id)
end
return #ARGV
