# syntax=docker/dockerfile:1
# The gateway, the worker and all commands: `docker run IMAGE serve`, `worker`, `migrate`, `keys list`, …

FROM node:20-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json tsconfig.build.json prisma.config.ts ./
COPY prisma prisma
COPY server server
COPY gateway gateway
RUN npm run build

# Neither what only builds and tests, nor the embedded Postgres, which `dev` alone needs.
FROM node:20-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional

FROM node:20-slim
ENV NODE_ENV=production HOST=0.0.0.0
WORKDIR /app
COPY package.json LICENSE ./
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY gateway/docs/browser gateway/docs/browser
COPY gateway/docs/guides gateway/docs/guides
COPY prisma/schema.prisma prisma/schema.prisma
COPY prisma/migrations prisma/migrations
USER node
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 3000}/readyz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "dist/gateway/cli.js"]
CMD ["serve"]
